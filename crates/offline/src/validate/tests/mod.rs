//! What `validate` says about manifests.

mod absent;
mod attachment;
mod own_routes;
mod picker;

use longboat_manifest::parse_all;

use super::{Finding, Report, Source, validate};
use crate::Settings;

fn report(text: &str) -> Report {
    let mut report = validate(parse_all("f.yaml", text), &Settings::default());
    // Most pickers here have no route, which is no topic of these tests.
    report.findings.retain(|finding| finding.reason != "PoolWithoutRoute");
    report
}

/// Returns the findings as `line:column severity path reason`, followed by the hint if there is one.
fn said(text: &str) -> Vec<String> {
    let show = |finding: &Finding| {
        let (line, column) = (finding.line.unwrap_or_default(), finding.column.unwrap_or_default());
        let hint = finding.hint.as_ref().map(|hint| format!(" ({hint})")).unwrap_or_default();
        format!("{line}:{column} {} {} {}{hint}", finding.severity.name(), finding.path, finding.reason)
    };
    report(text).findings.iter().map(show).collect()
}

/// Returns a service with these lines below the model in its spec. The first one is line 7.
fn service(lines: &str) -> String {
    format!(
        "apiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceService\nmetadata: {{name: one}}\nspec:\n  model:\n    uri: hf://org/model\n{lines}"
    )
}

#[test]
fn a_sound_service_is_checked_and_nothing_is_said() {
    let found = report(&service("  router: {route: {}, gateway: {}, scheduler: {}}\n"));
    assert_eq!(found.findings, []);
    assert_eq!(found.checked.len(), 1);
    assert!(found.checked[0].1 && found.is_clean());
}

#[test]
fn unknown_fields_are_errors_with_what_was_meant() {
    assert_eq!(
        said(&service(
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
        said(&service("").replace("{name: one}", metadata)),
        [
            "3:37 error metadata.annotations[serving.kserve.io/stop] BadRequest (the value must be a string: put what is \
             written here in quotes)",
            "3:83 error metadata.labels[level] BadRequest (the value must be a string: write `level: \"2\"`)",
            "3:93 error metadata.labels[version] BadRequest (the value must be a string: put it in quotes)",
        ]
    );
    assert_eq!(
        said(&service("  annotations: {serving.kserve.io/model-based-routing-enabled: true}\n")),
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
    let found = said(&format!("{}{runtime}", service(lines)));
    assert_eq!(found.iter().filter(|text| text.contains("spec.parallelism.data ")).count(), 1, "{found:#?}");
    assert!(found.iter().any(|text| text.contains("error spec.parallelism.data")), "{found:#?}");
}

#[test]
fn wrong_types_values_and_bounds_are_found_where_they_stand() {
    assert_eq!(
        said(&service("  replicas: \"3\"\n")),
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
        assert_eq!(said(&service(&format!("  {field}\n"))), [expected]);
    }
    assert_eq!(said(&service("  replicas: -1\n")), ["7:3 error spec.replicas FieldValueInvalid"]);
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
fn pools_in_the_form_of_the_other_version_are_recognised() {
    let pool = "  router:\n    scheduler:\n      pool:\n        spec:\n          selector:\n            app: x\n          targetPortNumber: 8000\n";
    let found = report(&service(pool));
    let hints: Vec<_> = found.findings.iter().filter_map(|finding| finding.hint.as_deref()).collect();
    assert!(hints.iter().any(|hint| hint.contains("`selector.matchLabels`")), "{hints:#?}");
    assert!(hints.iter().any(|hint| hint.contains("targetPorts: [{number: 8000}]")), "{hints:#?}");
    let criticality = service("").replace("uri:", "criticality: High\n    uri:");
    assert!(said(&criticality)[0].contains("only v1alpha1 has this field"), "{:?}", said(&criticality));
}

#[test]
fn a_config_that_is_not_there_is_a_warning_and_one_that_breaks_a_service_an_error() {
    let config = "---\napiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\nmetadata: {name: base}\nspec:\n  replicas: 3\n";
    let missing = service("  baseRefs: [{name: bas}]\n") + config;
    assert_eq!(said(&missing), ["7:15 warning spec.baseRefs[0].name ConfigNotFound (did you mean `base`?)"]);
    assert!(report(&missing).is_clean());
    let scaled =
        service("  baseRefs: [{name: base}]\n  scaling: {maxReplicas: 3, wva: {hpa: {}}}\n") + config;
    let found = report(&scaled);
    assert!(!found.is_clean());
    assert!(
        found.findings.iter().any(|finding| finding.source == Source::Compose
            && finding.reason == "InvalidRenderedConfig"
            && finding.message.contains("default/base")),
        "{:#?}",
        found.findings
    );
}

#[test]
fn a_template_that_does_not_parse_is_an_error() {
    let config = "---\napiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\nmetadata: {name: base}\nspec:\n  template:\n    containers:\n    - name: main\n      image: '{{ .Spec'\n";
    let found = report(&(service("  baseRefs: [{name: base}]\n") + config));
    assert!(!found.is_clean(), "{:#?}", found.findings);
    assert!(found.findings[0].message.contains("template"), "{:#?}", found.findings);
}

#[test]
fn the_field_whose_template_fails_is_pointed_at() {
    let config = |image: &str| {
        format!(
            "apiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\nmetadata: {{name: base}}\nspec:\n  template:\n    containers:\n    - name: main\n      args: ['{{{{ .Spec.Model.Name }}}}']\n      image: '{image}'\n"
        )
    };
    for image in ["{{ .Spec", "{{ .Spec.Nothing }}", "{{ and }}"] {
        let found = report(&config(image));
        let finding = &found.findings[0];
        assert_eq!(
            (finding.path.as_str(), finding.line),
            ("spec.template.containers[0].image", Some(9)),
            "{finding:#?}"
        );
    }
}

#[test]
fn objects_that_are_given_twice_and_kinds_that_are_not_known_are_said() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    let text = format!(
        "{map}---\n{map}---\napiVersion: example.com/v1\nkind: Odd\nmetadata: {{name: b}}\n---\napiVersion: serving.kserve.io/v1alpha3\nkind: LLMInferenceService\nmetadata: {{name: c}}\n"
    );
    assert_eq!(
        said(&text),
        [
            "7:12 error metadata.name Duplicate (the second object would replace the first one: remove or \
             rename one of them)",
            "9:1 note  NotChecked",
            "14:1 error kind NoMatch (write `serving.kserve.io/v1alpha2` or `serving.kserve.io/v1alpha1`)",
        ]
    );
}

#[test]
fn kinds_of_other_groups_and_names_of_no_namespace_are_told_apart() {
    let object = |api_version: &str, kind: &str| {
        said(&format!("apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: a}}\nspec: {{}}\n"))
    };
    let note = ["1:1 note  NotChecked"];
    assert_eq!(object("serving.kserve.io/v1beta1", "InferenceService"), note);
    assert_eq!(object("serving.kserve.io/v1alpha1", "LocalModelCache"), note);
    assert_eq!(object("example.com/v1", "Anything"), note);
    assert_eq!(
        object("llm-d.ai/v1alpha1", "LLMInferenceService"),
        ["2:1 error kind NoMatch (write `apiVersion: serving.kserve.io/v1alpha2`)"]
    );
    assert_eq!(
        object("serving.kserve.io/v1alpha1", "HTTPRoute"),
        ["2:1 error kind NoMatch (write `apiVersion: gateway.networking.k8s.io/v1`)"]
    );
    assert_eq!(object("gateway.networking.k8s.io/v1beta1", "HTTPRoute"), [""; 0]);
    let namespace = |name: &str| {
        said(
            &service("  router: {route: {}, gateway: {}}\n")
                .replace("{name: one}", &format!("{{name: one, namespace: {name}}}")),
        )
    };
    assert_eq!(namespace("My_NS"), ["3:23 error metadata.namespace FieldValueInvalid"]);
    assert_eq!(
        namespace("'${NS}'"),
        [
            "3:23 error metadata.namespace FieldValueInvalid (replace this placeholder first, or leave the namespace out)"
        ]
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
        said(&service(env)),
        [
            "10:7 error spec.template.containers[0].env FieldValueTypeInvalid (write each variable as an item of a list: `- {name: B, value: …}`)"
        ]
    );
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata:\n  a: x\n  port: 8000\n  flag.on: true\n  b: {c: d}\n";
    assert_eq!(
        said(map),
        [
            "6:3 error data[port] BadRequest (put it in quotes: \"8000\")",
            "7:3 error data[flag.on] BadRequest (the value must be a string: put what is written here in quotes)",
            "8:3 error data[b] BadRequest (the value is a text: write `|` after the colon, so that the lines below it are one)",
        ]
    );
}

#[test]
fn a_name_of_the_model_that_no_path_can_have_is_told_what_it_may_have() {
    let text = service("    name: 'é'\n  router: {gateway: {}, route: {}, scheduler: {}}\n");
    assert_eq!(
        said(&text),
        [
            "7:5 error spec.model.name InvalidRenderedConfig (the route has the name in its paths: use letters, digits and any of -._~)"
        ]
    );
}

#[test]
fn a_runtime_that_is_not_there_is_told_the_one_that_is_meant() {
    let hint = |runtime: &str| {
        let found = report(&service(&format!("  runtime: {runtime}\n"))).findings;
        let [finding] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((finding.line, &*finding.path), (Some(7), "spec.runtime"));
        finding.hint.clone().unwrap_or_default()
    };
    assert_eq!(hint("sglang"), "did you mean `kserve-llm-sglang`?");
    assert_eq!(hint("kserve-sglang"), "did you mean `kserve-llm-sglang`?");
    assert_eq!(hint("llm"), "it is not in these files, so it must exist on the cluster");
    assert_eq!(hint("kserve-llm-sgalng"), "did you mean `kserve-llm-sglang`?");
    assert_eq!(hint("vllm"), "remove spec.runtime: without it, the presets serve with vLLM");
    assert_eq!(hint("ours"), "it is not in these files, so it must exist on the cluster");
}

#[test]
fn settings_that_cannot_be_used_are_blamed_themselves() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: inferenceservice-config, namespace: kserve}\ndata:\n  storageInitializer: '{}'\n  ingress: 'x'\n";
    let platform = longboat_manifest::parse("p.yaml", text).unwrap().into_iter().next();
    let found =
        validate(parse_all("f.yaml", &service("")), &Settings { platform, ..Settings::default() }).findings;
    let places: Vec<_> = found.iter().map(|finding| (&*finding.file, finding.line, &*finding.path)).collect();
    assert_eq!(places, [("p.yaml", Some(6), "data.ingress")]);
}

#[test]
fn other_kinds_are_checked_as_a_server_does() {
    let text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec:\n  replica: 1\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: c}}\n    spec: {containers: [{name: x, image: example/y}]}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: b}\nspec: {ports: [{port: 80}], selector: {a: b}}\n";
    let found = said(text);
    assert!(found[0].starts_with("5:3 error spec.replica UnknownField"), "{found:#?}");
    assert!(found[1].contains("error spec.template.metadata.labels FieldValueInvalid"), "{found:#?}");
    assert_eq!(found.len(), 2, "{found:#?}");
}

#[test]
fn old_objects_are_checked_by_their_own_schema_and_with_their_layers() {
    let text = service("  router: {route: {}, gateway: {}, scheduler: {}}\n").replace("v1alpha2", "v1alpha1");
    assert!(report(&text).is_clean(), "{:#?}", report(&text).findings);
    assert_eq!(
        said(&service("  replcas: 1\n").replace("v1alpha2", "v1alpha1")),
        ["7:3 error spec.replcas UnknownField (did you mean `replicas`?)"]
    );
}

#[test]
fn names_that_no_server_takes_are_refused() {
    let text = service("").replace("name: one", "name: One");
    assert!(
        said(&text).iter().any(|line| line.starts_with("3:12 error metadata.name FieldValueInvalid")),
        "{:?}",
        said(&text)
    );
}

#[test]
fn a_model_that_nobody_can_fetch_is_an_error() {
    assert_eq!(
        said(&service("").replace("hf://org/model", "ftp://host/model")),
        [
            "6:5 error spec.model.uri ReconcileSingleNodeWorkloadError (models are downloaded from hf://, s3://, gs://, http(s)://, pvc://, oci:// or file://)"
        ]
    );
    assert_eq!(
        said(&service("").replace("hf://org/model", "\"\"")),
        [
            "6:5 error spec.model.uri ReconcileSingleNodeWorkloadError (set the address of the model: hf://, s3://, gs://, http(s)://, pvc://, oci:// or file://)"
        ]
    );
    // A config may set the model.
    let config = "---\napiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\nmetadata: {name: base}\nspec:\n  model: {uri: 'hf://a/b'}\n";
    let text = service("  baseRefs: [{name: base}]\n").replace("hf://org/model", "\"\"") + config;
    assert!(report(&text).is_clean(), "{:#?}", report(&text).findings);
}

#[test]
fn adapters_that_would_share_a_folder_are_told_apart_or_refused() {
    let adapters = |names: &[&str]| {
        let lines: String = names
            .iter()
            .map(|name| format!("      - {{name: '{name}', uri: 'hf://org/x'}}\n"))
            .collect::<Vec<_>>()
            .concat();
        format!("    lora:\n      adapters:\n{lines}")
    };
    assert_eq!(said(&service(&adapters(&["a/b", "a-b"]))), Vec::<String>::new());
    // The folder of "a/b" beside "a-b".
    let path = longboat_api::lora_paths::mount_paths(&["a/b", "a-b"]).unwrap().remove(0);
    let literal = path.strip_prefix("/mnt/lora/").unwrap();
    let found = said(&service(&adapters(&["a/b", "a-b", literal])));
    assert_eq!(found, ["8:7 error spec.model.lora.adapters FieldValueInvalid"]);
    // A config is merged before anybody knows which adapters the service has.
    let config = format!(
        "---\napiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\nmetadata: {{name: named}}\nspec:\n  model:\n    uri: hf://org/model\n{}",
        adapters(&["a/b", "a-b", literal])
    );
    let found = said(&(service("  baseRefs: [{name: named}]\n") + &config));
    assert!(
        found.iter().any(|line| line.ends_with("error spec.model.lora LoRAMountPathCollision")),
        "{found:#?}"
    );
}

/// Returns the findings as `line severity path: message`.
fn told(text: &str) -> Vec<String> {
    let show = |finding: &Finding| {
        let Finding { severity, path, message, .. } = finding;
        format!("{} {} {path}: {message}", finding.line.unwrap_or_default(), severity.name())
    };
    report(text).findings.iter().map(show).collect()
}

#[test]
fn a_mistake_that_a_rule_and_the_webhook_find_is_told_once_at_the_exact_field() {
    let found = told(&service(
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
    let both = told(&service(
        "  scaling: {minReplicas: 5, maxReplicas: 2, wva: {hpa: {}}}\n  prefill:\n    scaling: {minReplicas: 4, maxReplicas: 3, wva: {hpa: {}}}\n",
    ));
    assert_eq!(both.len(), 2, "{both:#?}");
    assert!(
        both[0].starts_with("7 error spec.scaling: ")
            && both[1].starts_with("9 error spec.prefill.scaling: ")
    );
}

#[test]
fn what_an_engine_cannot_have_is_named_in_the_layer_that_has_it() {
    let config = "---\napiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\nmetadata: {name: offload}\nspec:\n  kvCacheOffloading: {cpu: 1Gi}\n";
    let text = service("  runtime: kserve-llm-sglang\n  baseRefs: [{name: offload}]\n") + config;
    let found = report(&text).findings;
    let [finding] = found.as_slice() else { panic!("{found:#?}") };
    assert_eq!((finding.line, finding.path.as_str()), (Some(14), "spec.kvCacheOffloading"));
    assert!(finding.message.starts_with("not possible with SGLang"), "{finding:#?}");
    let hint = finding.hint.as_deref();
    assert_eq!(hint, Some("the field comes from LLMInferenceServiceConfig default/offload"));
}

#[test]
fn a_template_that_fails_is_named_where_it_is_written() {
    let config = "---\napiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceServiceConfig\nmetadata: {name: base}\nspec:\n  labels: {a: '{{ .Spec.Template.Containers.x }}'}\n";
    let found = told(&(service("  baseRefs: [{name: base}]\n") + config));
    assert!(found.iter().any(|line| line.starts_with("13 error spec.labels.a: ")), "{found:#?}");
    let own = told(&service("  labels:\n    a: '{{ .x }}'\n"));
    assert!(
        own.len() == 1 && own[0].starts_with("8 error spec.labels.a: failed to merge config"),
        "{own:#?}"
    );
}

#[test]
fn the_metadata_of_a_pod_is_told_its_place() {
    let found =
        said(&service("  template:\n    metadata: {annotations: {a: b}}\n    spec: {containers: []}\n"));
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
fn what_a_cluster_accepts_and_cannot_serve_is_named_at_its_field() {
    const ROUTER: &str = "  router: {gateway: {}, route: {}, scheduler: {}}\n";
    const POOL: &str = " (a pool of your own needs all of its fields: remove `pool.spec` to have the pool of the preset, or set \
        `selector`, `targetPorts` and `endpointPickerRef`)";
    let at = |address: &str| service(ROUTER).replace("hf://org/model", address);
    let adapters = |adapters: &str| {
        service(ROUTER)
            .replace("hf://org/model\n", &format!("hf://org/model\n    lora:\n      adapters:\n{adapters}"))
    };
    let mounted = "  template:\n    containers:\n    - name: main\n      volumeMounts: [{name: own, mountPath: /mnt/models/}]\n    volumes: [{name: own, emptyDir: {}}]\n";
    let picker = "  router:\n    gateway: {}\n    route: {}\n    scheduler:\n      config: {ref: {name: own}}\n      template: {containers: [{name: main, args: ['--config-file=/x']}]}\n";
    for (text, expected) in [
        (at("https://a.blob.core.windows.net/models/m"), vec!["6:5 error spec.model.uri ModelAddress"]),
        (at("https://host/org/model.git"), vec!["6:5 error spec.model.uri ModelAddress"]),
        (at("pvc://claim/../other"), vec!["6:5 error spec.model.uri ModelAddress"]),
        (
            adapters(
                "      - {name: a, uri: 'hf://org/a', rank: 8}\n      - {name: b, uri: 'hf://org/b', confidental: {}}\n",
            ),
            vec![
                "9:38 warning spec.model.lora.adapters[0].rank UnknownField",
                "10:38 warning spec.model.lora.adapters[1].confidental UnknownField (did you mean `confidential`?)",
            ],
        ),
        (
            adapters("      - {name: a, uri: 'hf://org/a'}\n      - {name: b, uri: 'ftp://host/b'}\n"),
            vec!["10:19 error spec.model.lora.adapters[1].uri CombineBaseError"],
        ),
        (
            service(&(ROUTER.to_owned() + mounted)),
            vec![
                "11:34 error spec.template.containers[0].volumeMounts[0].mountPath ModelMountedTwice (remove the volume mount own, \
                 or bring the model yourself with spec.storageInitializer.enabled: false)",
            ],
        ),
        (
            service(&(ROUTER.to_owned() + &mounted.replace("models/", "lora/"))).replace(
                "hf://org/model\n",
                "hf://org/model\n    lora: {adapters: [{name: a, uri: 'hf://o/a'}, {name: c, uri: 'pvc://c/c'}]}\n",
            ),
            vec![
                "4:1 note spec NotInTheseFiles (they must exist on the cluster)",
                "12:34 warning spec.template.containers[0].volumeMounts[0].mountPath AdapterHidden (mount the volume own elsewhere, \
                 or name a pvc:// address for each adapter that it has)",
            ],
        ),
        (
            service("  router: {gateway: {}, route: {}}\n  prefill: {replicas: 1}\n"),
            vec![
                "8:3 warning spec.prefill PrefillWithoutPicker (set `spec.router.scheduler: {}`, or remove spec.prefill)",
            ],
        ),
        (
            service(&(ROUTER.to_owned() + "  kvCacheOffloading: {cpu: 100m}\n")),
            vec!["8:23 error spec.kvCacheOffloading.cpu FieldValueInvalid"],
        ),
    ] {
        assert_eq!(said(&text), expected, "{text}");
    }
    let pool = said(&service(
        "  router:\n    route: {}\n    scheduler:\n      pool: {spec: {targetPorts: [{number: 1}]}}\n",
    ));
    let wanting = ["endpointPickerRef", "selector"];
    assert_eq!(
        pool,
        wanting.map(|field| {
            format!("10:14 error spec.router.scheduler.pool.spec.{field} FieldValueRequired{POOL}")
        })
    );
    let warnings = said(&service(picker));
    let twice = "12:44 warning spec.router.scheduler.template.containers[0].args Warning";
    assert!(warnings.iter().any(|line| line == twice), "{warnings:#?}");
}

#[test]
fn contents_that_longboat_cannot_read_are_errors_at_their_key() {
    let secret = |label: &str, entries: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: a, labels: {{longboat.dev/api-key: '{label}'}}}}\nstringData: {{{entries}}}\n"
        )
    };
    let settings = |data: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: inferenceservice-config, namespace: kserve}}\ndata:\n  storageInitializer: '{{\"memoryRequest\": \"1\", \"memoryLimit\": \"1\", \"cpuRequest\": \"1\", \"cpuLimit\": \"1\"}}'\n{data}"
        )
    };
    let key = "key: sk-0123456789abcdef";
    for (text, expected) in [
        (secret("true", key), vec![]),
        (secret("true", "key: short"), vec!["4:1 error stringData ApiKeyRefused"]),
        (
            secret("true", &format!("{key}, requestPerMinute: '1'")),
            vec!["4:1 error stringData ApiKeyRefused"],
        ),
        (secret("yes", key), vec!["4:1 error stringData ApiKeyRefused"]),
        (
            format!("{}---\n{}", secret("true", key), secret("true", key).replace("name: a", "name: b")),
            vec!["9:1 error stringData ApiKeyRefused"],
        ),
        (settings("  longboat: '{}'\n"), vec![]),
        (
            settings("  longboat: '{\"pickerClient\": []}'\n"),
            vec!["6:3 error data.longboat PlatformSettings (did you mean `pickerClients`?)"],
        ),
        (
            settings("  ingres: '{}'\n  credentials: '{\"storageSpecSecretNames\": \"a\"}'\n"),
            vec![
                "6:3 warning data.ingres UnknownSetting (did you mean `ingress`?)",
                "7:3 warning data.credentials UnknownSetting (did you mean `storageSpecSecretName`?)",
            ],
        ),
    ] {
        assert_eq!(said(&text), expected, "{text}");
    }
}

#[test]
fn plain_text_in_the_data_of_a_secret_is_told_its_place() {
    let secret =
        "apiVersion: v1\nkind: Secret\nmetadata: {name: token}\ndata:\n  a: aGY=\n  HF_TOKEN: hf_abc def\n";
    assert_eq!(
        said(secret),
        [
            "6:3 error data[HF_TOKEN] BadRequest (the values of `data` are base64: write plain text below `stringData`)"
        ]
    );
}

#[test]
fn an_annotation_that_gives_a_metric_no_number_is_a_warning() {
    let text = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata:\n  name: a\n  annotations:\n    longboat.dev/metric.good: '2'\n    longboat.dev/metric.queue: many\nspec: {maxReplicas: 2, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: d}}\n";
    let found: Vec<String> = report(text).findings.iter().map(Finding::line).collect();
    assert_eq!(
        found,
        [
            "f.yaml:7:5: warning: metadata.annotations[longboat.dev/metric.queue]: annotation longboat.dev/metric.queue is \"many\", \
             which is no number: `longboat up` cannot scale by it"
        ]
    );
}

#[test]
fn services_that_serve_a_model_of_the_same_name_at_one_gateway_are_told_of_each_other() {
    let two = |first: &str, second: &str| {
        let of = |name: &str, router: &str| {
            service(&format!("    name: m\n  router: {{{router}}}\n"))
                .replace("{name: one}", &format!("{{name: {name}}}"))
        };
        let text = format!("{}---\n{}", of("one", first), of("two", second));
        report(&text).findings.iter().map(Finding::line).collect::<Vec<_>>()
    };
    let of = |line: u32, other: &str| {
        format!(
            "f.yaml:{line}:5: warning: spec.model.name: model \"m\" has the name of a model of LLMInferenceService default/{other} at the \
             same Gateway: requests that name only the model reach one of the two services"
        )
    };
    let both = [of(7, "two"), of(16, "one")];
    assert_eq!(two("gateway: {}, route: {}", "route: {}"), both);
    assert_eq!(two("route: {}", "scheduler: {}, route: {group: g, weight: 1}"), both);
    let group = "route: {group: g, weight: 1}";
    assert_eq!(two(group, group), [""; 0]);
    // Own routes with other matches, other hosts, or none.
    for other in [
        "",
        "route: {http: {spec: {hostnames: [a.example.com]}}}",
        "route: {http: {spec: {rules: [{matches: [{path: {value: /mine}}]}]}}}",
    ] {
        let first = "route: {http: {spec: {hostnames: [b.example.com]}}}";
        let found = two(first, other);
        assert!(found.iter().all(|line| !line.contains("same Gateway")), "{found:#?}");
    }
}

#[test]
fn a_trigger_by_cpu_or_memory_needs_requests_of_the_containers() {
    let with = |resource: &str, container: &str, resources: &str| {
        service(&format!(
            "  scaling:\n    maxReplicas: 3\n    keda:\n      triggers:\n      - type: {resource}\n        metricType: AverageValue\n        metadata: {{value: 1Gi{container}}}\n  \
             template:\n    containers:\n    - {{name: main, resources: {{{resources}}}}}\n    - {{name: logs, image: a, resources: {{limits: {{cpu: 1}}}}}}\n"
        ))
    };
    let said = |text: &str| report(text).findings.iter().map(Finding::line).collect::<Vec<_>>();
    let refused = |container: &str| {
        format!(
            "f.yaml:11:9: warning: spec.scaling.keda.triggers[0].type: is memory, and container {container} of Deployment one-kserve has no \
             memory request: KEDA refuses the trigger, so nothing scales the workload"
        )
    };
    assert_eq!(said(&with("memory", "", "")), [refused("main")]);
    assert_eq!(said(&with("memory", "", "requests: {memory: 1Gi}")), [refused("logs")]);
    assert_eq!(said(&with("memory", ", containerName: main", "requests: {memory: 1Gi}")), [""; 0]);
    assert_eq!(said(&with("memory", ", containerName: main", "limits: {memory: 1Gi}")), [""; 0]);
    assert_eq!(said(&with("memory", ", containerName: main", "requests: {memory: 0}")), [refused("main")]);
    let range = "---\napiVersion: v1\nkind: LimitRange\nmetadata: {name: r}\nspec: {limits: []}\n";
    assert_eq!(said(&(with("memory", "", "") + range)), [""; 0]);
}

#[test]
fn a_list_in_place_of_a_string_is_told_how_to_write_it() {
    assert_eq!(
        said(&service("    name: [a, b]\n")),
        [
            "7:5 error spec.model.name FieldValueTypeInvalid (the value must be one string: write it without brackets and dashes)"
        ]
    );
}
