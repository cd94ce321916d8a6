//! Fields and their values: what the schemas, the rules and the webhook refuse.

use super::{Source, finding_lines, finding_messages, report, service};

#[test]
fn unknown_fields_are_errors_with_what_was_meant() {
    assert_eq!(
        finding_lines(&service(
            "  replcas: 2\n  workerSpec: {}\n  parallelism:\n    tensorParallelSize: 2\n  template:\n    containers:\n    - name: main\n      imag: x\n"
        )),
        [
            "7:3 error spec.replcas UnknownField (did you mean `replicas`?)",
            "8:3 error spec.workerSpec UnknownField (set the pod template of workers in `spec.worker`; \
             `spec.parallelism` (data, dataLocal or pipeline) determines their number)",
            "10:5 error spec.parallelism.tensorParallelSize UnknownField (write `spec.parallelism.tensor`)",
            "14:7 error spec.template.containers[0].imag UnknownField (did you mean `image`?)",
        ]
    );
}

#[test]
fn fields_of_articles_and_other_tools_come_with_their_place_here() {
    let lines = "  workload: {kvCacheOffloading: {}}\n  parallelism: {data: 2, dataLocal: 1}\n  worker: {replicas: 1, template: {}}\n  template: {annotations: {a: b}}\n  router:\n    gateway: {managed: {}}\n    route: {httpRoute: {}}\n    scheduler: {endpointPickerConfig: {}}\n";
    for (field, advice) in [
        ("spec.workload", "without `workload`"),
        ("spec.worker.replicas", "data / dataLocal"),
        ("spec.worker.template", "without `template`"),
        ("spec.template.annotations", "beside it"),
        ("spec.router.gateway.managed", "`gateway: {}`"),
        ("spec.router.route.httpRoute", "`route: {}`"),
        ("spec.router.scheduler.endpointPickerConfig", "`config: {inline: …}`"),
    ] {
        let found = finding_lines(&service(lines));
        let finding_messages =
            found.iter().find(|line| line.contains(&format!("{field} UnknownField"))).expect(field);
        assert!(finding_messages.contains(advice), "{finding_messages}");
    }
}

#[test]
fn what_is_to_be_replaced_first_is_said_in_each_form() {
    for (name, advice) in [
        ("$MODEL_NAME", "`$MODEL_NAME` is not replaced here"),
        ("'a-${MODEL_NAME}'", "`${MODEL_NAME}` is not replaced here"),
        ("<model-name>", "replace the placeholder `<model-name>` first"),
    ] {
        let found = finding_lines(&service("").replace("name: one", &format!("name: {name}")));
        let mut errors = found.iter().filter(|line| line.contains(" error ")).peekable();
        assert!(errors.peek().is_some() && errors.all(|line| line.contains(advice)), "{found:#?}");
    }
}

#[test]
fn fields_and_annotations_of_a_newer_kserve_are_named_as_such() {
    let text = service("  encode: {replicas: 1}\n  storageInitializer: {storageContainerName: hf}\n")
        .replace(
            "{name: one}",
            "{name: one, annotations: {serving.kserve.io/exp-modelexpress-mode: native, mine: x}}",
        );
    let found: Vec<String> = report(&text)
        .findings
        .iter()
        .map(|finding| format!("{} {}: {}", finding.severity.name(), finding.path, finding.message))
        .collect();
    assert_eq!(
        found,
        [
            "warning metadata.annotations: serving.kserve.io/exp-modelexpress-mode has no effect in this version (a branch of \
             KServe after 0.21 has it): remove it: models are downloaded as `spec.model.uri` says",
            "error spec.encode: not in this version: a proposal for KServe has it (kserve#6119)",
            "error spec.storageInitializer.storageContainerName: not in this version: a branch of KServe after 0.21 has it",
        ]
    );
    assert!(report(&text).findings[1].hint.as_ref().unwrap().contains("a Deployment of your own"));
    // The names mean nothing elsewhere.
    let other = "apiVersion: v1\nkind: Service\nmetadata: {name: b}\nspec: {encode: {}, ports: [{port: 80}], selector: {a: b}}\n";
    assert_eq!(report(other).findings[0].message, "unknown field");
}

#[test]
fn annotations_and_labels_without_quotes_come_with_the_quoted_form() {
    let metadata =
        "{name: one, annotations: {serving.kserve.io/stop: true, a: b}, labels: {level: 2, version: 1.10}}";
    assert_eq!(
        finding_lines(&service("").replace("{name: one}", metadata)),
        [
            "3:37 error metadata.annotations[serving.kserve.io/stop] BadRequest (the value must be a string: put what is \
             written here in quotes)",
            "3:83 error metadata.labels[level] BadRequest (the value must be a string: write `level: \"2\"`)",
            "3:93 error metadata.labels[version] BadRequest (the value must be a string: put it in quotes)",
        ]
    );
    assert_eq!(
        finding_lines(&service("  annotations: {serving.kserve.io/model-based-routing-enabled: true}\n")),
        [
            "7:17 error spec.annotations[serving.kserve.io/model-based-routing-enabled] FieldValueTypeInvalid (the value must be \
             a string: put what is written here in quotes)"
        ]
    );
}

#[test]
fn a_field_that_must_go_is_not_warned_about() {
    let runtime = "---\napiVersion: serving.kserve.io/v1alpha1\nkind: ServingRuntime\nmetadata: {name: mine}\nspec:\n  \
                   supportedModelFormats: [{name: llama.cpp}]\n  containers: [{name: main, image: x}]\n";
    let lines = "  runtime: mine\n  parallelism: {data: 5, dataLocal: 2}\n  worker: {containers: []}\n";
    let found = finding_lines(&format!("{}{runtime}", service(lines)));
    assert_eq!(found.iter().filter(|text| text.contains("spec.parallelism.data ")).count(), 1, "{found:#?}");
    assert!(found.iter().any(|text| text.contains("error spec.parallelism.data")), "{found:#?}");
}

#[test]
fn wrong_types_values_and_bounds_are_found_where_they_stand() {
    assert_eq!(
        finding_lines(&service("  replicas: \"3\"\n")),
        ["7:3 error spec.replicas FieldValueTypeInvalid (write it without quotes: 3)"]
    );
    for (field, expected) in [
        (
            "baseRefs: [gpu]",
            "7:14 error spec.baseRefs[0] FieldValueTypeInvalid (each item is an object: write `- name: gpu`)",
        ),
        (
            "baseRefs: gpu",
            "7:3 error spec.baseRefs FieldValueTypeInvalid (this is a list: start each item with `- `)",
        ),
        (
            "replicas: 3s",
            "7:3 error spec.replicas FieldValueTypeInvalid (write a whole number, without a unit and without quotes)",
        ),
        ("baseRefs: [{name: A_B}]", "7:15 error spec.baseRefs[0].name FieldValueInvalid"),
        ("baseRefs: [{}]", "7:14 error spec.baseRefs[0].name FieldValueInvalid"),
        (
            "router: true",
            "7:3 error spec.router FieldValueTypeInvalid (this is an object: write `{}` to have it with its defaults)",
        ),
        (
            "router: no",
            "7:3 error spec.router FieldValueTypeInvalid (this is an object: remove the field to do without it)",
        ),
        (
            "router: mine",
            "7:3 error spec.router FieldValueTypeInvalid (this is an object: write its fields below it, or `{}` for an \
             empty one)",
        ),
    ] {
        assert_eq!(finding_lines(&service(&format!("  {field}\n"))), [expected]);
    }
    assert_eq!(finding_lines(&service("  replicas: -1\n")), ["7:3 error spec.replicas FieldValueInvalid"]);
}

#[test]
fn rules_of_the_webhook_come_with_advice() {
    let text = service("  replicas: 2\n  scaling: {maxReplicas: 3, wva: {hpa: {}}}\n");
    let found = report(&text);
    assert!(
        found
            .findings
            .iter()
            .any(|finding| finding.hint.as_deref().is_some_and(|hint| hint.starts_with("remove `replicas`"))),
        "{:#?}",
        found.findings
    );
    let text = service("  worker:\n    containers: [{name: main, image: x}]\n");
    let found = report(&text);
    assert!(
        found.findings.iter().any(|finding| finding.path == "spec.worker"
            && finding.source == Source::Webhook
            && finding.hint.as_deref().is_some_and(|hint| hint.starts_with("add `parallelism`"))),
        "{:#?}",
        found.findings
    );
}

#[test]
fn what_people_write_at_another_place_or_leave_open_is_told_its_form() {
    let hints = |lines: &str| {
        let findings = report(&service(lines)).findings.into_iter();
        findings
            .map(|finding| format!("{} {}", finding.path, finding.hint.unwrap_or_default()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        hints("  tolerations: []\n  prefill: {nodeSelector: {a: b}}\n  router: {template: {}}\n"),
        [
            "spec.tolerations this is a field of a pod: write `spec.template.tolerations`",
            "spec.prefill.nodeSelector this is a field of a pod: write `spec.prefill.template.nodeSelector`",
            "spec.router.template the pods of the model server are in `spec.template`",
        ]
    );
    assert_eq!(
        hints("  replicas: ${REPLICAS}\n"),
        ["spec.replicas `${REPLICAS}` is not replaced here: run `envsubst` first, or write the value"]
    );
    assert_eq!(
        hints("  router:\n    route:\n    gateway: {}\n"),
        ["spec.router.route write `route: {}` to have it with its defaults, or remove it"]
    );
    assert_eq!(
        hints(
            "  router:\n    route: {}\n    gateway: {}\n    scheduler:\n      config:\n        inline: |\n          a: b\n          c: d\n"
        ),
        [
            "spec.router.scheduler.config.inline these lines are one text: remove the `|` or `>` after the colon, so that they are fields"
        ]
    );
    assert_eq!(
        hints("  baseRefs: [{name: kserve-config-llm-tempalte}]\n"),
        ["spec.baseRefs[0].name did you mean `kserve-config-llm-template`?"]
    );
    for (lines, hint) in [
        (
            "  autoscaling: {}\n",
            "spec.autoscaling write `spec.scaling`, with `maxReplicas`, and `wva` or `keda`",
        ),
        ("  scaling: {maxReplicas: 2, hpa: {}}\n", "spec.scaling.hpa write it below `wva`"),
        (
            "  parallelism: {tensorParallelism: 2}\n",
            "spec.parallelism.tensorParallelism write `spec.parallelism.tensor`",
        ),
        ("  decode: {}\n", "spec.decode the pods that decode are in `spec.template`, beside `spec.prefill`"),
        (
            "  router: {route: {http: {rules: []}}}\n",
            "spec.router.route.http.rules this is a field of the route's spec: write it below `http.spec`",
        ),
        (
            "  router: {scheduler: {config: {plugins: []}}}\n",
            "spec.router.scheduler.config.plugins write it below `config.inline`, with apiVersion and kind of the \
             EndpointPickerConfig",
        ),
        (
            "    lora: {adapters: ['hf://a/b']}\n",
            "spec.model.lora.adapters[0] each adapter is an object: write `- {name: NAME, uri: hf://OWNER/MODEL}`",
        ),
        (
            "  template: {containers: [{name: main, limits: {cpu: 1}}]}\n",
            "spec.template.containers[0].limits write it below `resources` of the container",
        ),
        ("  runtime: {name: x}\n", "spec.runtime the value is the name itself: write `runtime: x`"),
    ] {
        let found = hints(lines);
        assert!(found.iter().any(|line| line == hint), "{found:#?}");
    }
    // A server has three sentences about each.
    let limit = |limit: &str| {
        hints(&format!("  template: {{containers: [{{name: main, resources: {{limits: {{{limit}}}}}}}]}}\n"))
    };
    let path = "spec.template.containers[0].resources.limits";
    assert_eq!(limit("cpu: 0.5"), [format!("{path}.cpu write it in quotes: \"0.5\"")]);
    assert_eq!(
        limit("nvidia.com/gpu: 0.5"),
        [format!("{path}.nvidia.com/gpu devices are counted: write a whole number")]
    );
    let memory = "  template:\n    containers:\n    - name: main\n      resources: {limits: {memory: 16}}\n";
    assert_eq!(
        hints(memory),
        ["spec.template.containers[0].resources.limits.memory write a unit, such as 16Gi"]
    );
}

#[test]
fn maps_that_should_be_lists_or_texts_are_told_so_with_their_key() {
    let env = "  template:\n    containers:\n    - name: main\n      env: {HF_TOKEN: x, B: y}\n";
    assert_eq!(
        finding_lines(&service(env)),
        [
            "10:7 error spec.template.containers[0].env FieldValueTypeInvalid (write each variable as an item of a list: `- {name: B, value: …}`)"
        ]
    );
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n  a: x\n  port: 8000\n  flag.on: true\n  b: {c: d}\n";
    assert_eq!(
        finding_lines(map),
        [
            "6:3 error data[port] BadRequest (put it in quotes: \"8000\")",
            "7:3 error data[flag.on] BadRequest (the value must be a string: put what is written here in quotes)",
            "8:3 error data[b] BadRequest (the value is a text: write `|` after the colon, so that the lines below it are one)",
        ]
    );
}

#[test]
fn a_mistake_that_a_rule_and_the_webhook_find_is_told_once_at_the_exact_field() {
    let found = finding_messages(&service(
        "  replicas: 2\n  scaling:\n    minReplicas: 5\n    maxReplicas: 2\n    wva: {hpa: {}, keda: {}}\n",
    ));
    assert_eq!(found.len(), 3, "{found:#?}");
    assert!(
        found[0].starts_with("8 error spec: ") && found[0].contains("replicas and scaling are"),
        "{found:#?}"
    );
    assert!(found[1].starts_with("9 error spec.scaling: ") && found[1].contains("minReplicas cannot exceed"));
    assert!(found[2].starts_with("11 error spec.scaling.wva: ") && found[2].contains("hpa and keda"));
    // Both workloads have the mistake, and both are told.
    let both = finding_messages(&service(
        "  scaling: {minReplicas: 5, maxReplicas: 2, wva: {hpa: {}}}\n  prefill:\n    scaling: {minReplicas: 4, maxReplicas: 3, wva: {hpa: {}}}\n",
    ));
    assert_eq!(both.len(), 2, "{both:#?}");
    assert!(
        both[0].starts_with("7 error spec.scaling: ")
            && both[1].starts_with("9 error spec.prefill.scaling: ")
    );
}

#[test]
fn the_metadata_of_a_pod_is_told_its_place() {
    let found = finding_lines(&service(
        "  template:\n    metadata: {annotations: {a: b}}\n    spec: {containers: []}\n",
    ));
    let advice = "a template here is the spec of a pod: write";
    assert_eq!(
        found,
        [
            format!(
                "8:5 error spec.template.metadata UnknownField ({advice} labels and annotations in `labels` and `annotations` \
                 beside it)"
            ),
            format!("9:5 error spec.template.spec UnknownField ({advice} its fields without `spec`)"),
        ]
    );
}

#[test]
fn a_list_in_place_of_a_string_is_told_how_to_write_it() {
    assert_eq!(
        finding_lines(&service("    name: [a, b]\n")),
        [
            "7:5 error spec.model.name FieldValueTypeInvalid (the value must be one string: write it without brackets and dashes)"
        ]
    );
}
