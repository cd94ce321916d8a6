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
            "3:37 error metadata.annotations[serving.kserve.io/stop] BadRequest (the value must be a string: write \
             `serving.kserve.io/stop: \"true\"`)",
            "3:83 error metadata.labels[level] BadRequest (the value must be a string: write `level: \"2\"`)",
            "3:93 error metadata.labels[version] BadRequest (the value must be a string: put it in quotes)",
        ]
    );
    assert_eq!(
        said(&service("  annotations: {serving.kserve.io/model-based-routing-enabled: true}\n")),
        [
            "7:17 error spec.annotations[serving.kserve.io/model-based-routing-enabled] FieldValueTypeInvalid (the value must be \
             a string: write `serving.kserve.io/model-based-routing-enabled: \"true\"`)"
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

/// A service with this configuration of its picker, written as an object. Its first line is line 11.
fn with_picker(config: &str) -> String {
    let config: Vec<_> = config.lines().map(|line| format!("          {line}\n")).collect();
    let config = config.concat();
    service(&format!("  router:\n    scheduler:\n      config:\n        inline:\n{config}"))
}

const PICKER: &str = "apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: queue-scorer
    weight: 2
  - pluginRef: max-score-picker
";

#[test]
fn what_a_picker_would_refuse_is_an_error_at_its_line() {
    assert_eq!(said(&with_picker(PICKER)), [""; 0]);
    let profile = "spec.router.scheduler.config.inline.schedulingProfiles[0].plugins[0]";
    for (from, to, wanted) in [
        (
            "type: queue-scorer",
            "type: queue-scorerr",
            "14:13 error spec.router.scheduler.config.inline.plugins[0].type".to_owned(),
        ),
        ("weight: 2", "wieght: 2", format!("20:15 error {profile}.wieght")),
        ("weight: 2", "weight: -2", format!("20:15 error {profile}.weight")),
        ("Ref: queue-scorer", "Ref: queue-score", format!("19:15 error {profile}.pluginRef")),
        ("v1alpha1", "v1beta9", "11:11 error spec.router.scheduler.config.inline.apiVersion".to_owned()),
        ("PickerConfig", "PickerConfigs", "12:11 error spec.router.scheduler.config.inline.kind".to_owned()),
        (
            "plugins:\n-",
            "featureGates: [flowControll]\nplugins:\n-",
            "13:26 error spec.router.scheduler.config.inline.featureGates[0]".to_owned(),
        ),
        (
            "- type: max",
            "- type: queue-scorer\n- type: max",
            "15:13 error spec.router.scheduler.config.inline.plugins[1]".to_owned(),
        ),
    ] {
        let text = with_picker(&PICKER.replacen(from, to, 1));
        assert_eq!(said(&text), [format!("{wanted} PickerConfigRefused")], "{to}");
        let report = report(&text);
        assert!(report.findings[0].message.starts_with("the picker will not start: "), "{report:?}");
        assert!(!report.is_clean() && !report.checked[0].1);
    }
}

#[test]
fn another_picker_may_know_more_so_what_ours_refuses_is_a_warning() {
    let text = with_picker(&PICKER.replacen("queue-scorer", "queue-scorerr", 1)).replace(
        "    scheduler:\n",
        "    scheduler:\n      template: {containers: [{name: main, image: my/picker}]}\n",
    );
    assert_eq!(
        said(&text),
        [
            "15:13 warning spec.router.scheduler.config.inline.plugins[0].type PickerConfigRefused (this is what this build's picker \
             says; my/picker may know other plugins and fields)"
        ]
    );
    assert!(report(&text).is_clean());
}

/// A field that moved, in a document of this version, with this picker. Its first line is line 11, or 12 with a picker.
fn moved(version: &str, picker: &str) -> String {
    let config =
        PICKER.replacen("v1alpha1", version, 1) + "saturationDetector: {pluginRef: utilization-detector}\n";
    with_picker(&config).replacen("    scheduler:\n", &format!("    scheduler:\n{picker}"), 1)
}

#[test]
fn a_field_that_is_gone_is_taken_by_our_picker_and_named_for_the_others() {
    let of = |version: &str, picker: &str| {
        let text = moved(version, picker);
        let clean = report(&text).is_clean();
        (
            said(&text),
            report(&text).findings.first().map(|found| found.message.clone()).unwrap_or_default(),
            clean,
        )
    };
    let path = "spec.router.scheduler.config.inline.saturationDetector";
    let (lines, message, clean) = of("v1alpha1", "");
    let taken = "PickerConfigVersion (this build's picker takes the field as before)";
    assert_eq!(lines, [format!("22:11 warning {path} {taken}")]);
    assert!(message.ends_with("write flowControl.saturationDetector.pluginRef") && clean, "{message}");

    let (lines, message, clean) = of("v1", "");
    assert_eq!(lines, [format!("22:11 error {path} PickerConfigRefused")]);
    assert!(message.ends_with("write flowControl.saturationDetector.pluginRef") && !clean, "{message}");

    let llmd = |version: &str| {
        format!(
            "      annotations: {{app.kubernetes.io/version: {version}}}\n      template: {{containers: [{{name: main, image: my/picker}}]}}\n"
        )
    };
    let (lines, message, clean) = of("v1alpha1", &llmd("0.11.0"));
    assert!(
        lines.len() == 1 && lines[0].starts_with(&format!("24:11 warning {path} PickerConfigVersion")),
        "{lines:?}"
    );
    assert!(
        message.starts_with("the picker will not start: saturationDetector is not a field of") && clean,
        "{message}"
    );
    assert_eq!(of("v1alpha1", &llmd("0.10.0")).0, [""; 0], "that release reads the field");

    let newest = PICKER.replacen("v1alpha1", "v1", 1);
    assert_eq!(said(&with_picker(&newest)), [""; 0]);
    let old =
        with_picker(&newest).replacen("    scheduler:\n", &format!("    scheduler:\n{}", llmd("0.10.0")), 1);
    let lines = said(&old);
    let path = "spec.router.scheduler.config.inline.apiVersion";
    assert!(
        lines.len() == 1 && lines[0].starts_with(&format!("13:11 warning {path} PickerConfigVersion")),
        "{lines:?}"
    );
}

#[test]
fn a_configuration_is_judged_as_the_controller_migrates_it() {
    // The reference migrates these names and parameters to the version that the preset declares.
    let text = "apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: prefill-header-handler
- type: prefill-filter
- type: decode-filter
- type: max-score-picker
- type: pd-profile-handler
  parameters: {threshold: 10, hashBlockSize: 5}
schedulingProfiles:
- name: prefill
  plugins: [{pluginRef: prefill-filter}, {pluginRef: max-score-picker}]
- name: decode
  plugins: [{pluginRef: decode-filter}, {pluginRef: max-score-picker}]
";
    let refused = |text: &str| {
        let all = said(&with_picker(text));
        all.into_iter().filter(|line| line.ends_with(" PickerConfigRefused")).collect::<Vec<_>>()
    };
    assert_eq!(refused(text), [""; 0]);
    // The migration inserts a plugin before the wrong one.
    assert_eq!(
        refused(&text.replace("schedulingProfiles", "- type: max-score\nschedulingProfiles")),
        ["20:13 error spec.router.scheduler.config.inline.plugins[5].type PickerConfigRefused"]
    );
}

#[test]
fn a_configuration_of_a_config_map_is_judged_at_its_line_there() {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: picker}\ndata:\n  epp: |\n";
    let wrong = PICKER.replace("weight", "wieght");
    let block: Vec<_> = wrong.lines().map(|line| format!("    {line}\n")).collect();
    let map = format!("{map}{}", block.concat());
    let by_reference = service("  router: {scheduler: {config: {ref: {name: picker}}}}\n");
    assert_eq!(
        said(&format!("{map}---\n{by_reference}")),
        ["15:9 error data.epp.schedulingProfiles[0].plugins[0].wieght PickerConfigRefused"]
    );
    // The ConfigMap is in the files, so the key cannot be elsewhere.
    let lacking = map.replace("  epp: |", "  other: |");
    assert_eq!(
        said(&format!("{lacking}---\n{by_reference}")),
        ["24:24 error spec.router.scheduler.config CombineBaseError"]
    );
    let mounted = service(
        "  router:
    scheduler:
      template:
        containers:
        - name: main
          args: [--config-file, /etc/picker/config.yaml]
          volumeMounts: [{name: config, mountPath: /etc/picker}]
        volumes:
        - name: config
          configMap: {name: picker, items: [{key: epp, path: config.yaml}]}
",
    );
    assert_eq!(
        said(&format!("{map}---\n{mounted}")),
        ["15:9 error data.epp.schedulingProfiles[0].plugins[0].wieght PickerConfigRefused"]
    );
}

#[test]
fn a_configuration_in_arguments_is_judged_too() {
    let lines = "  router:
    scheduler:
      template:
        containers:
        - name: main
          args:
          - --config-text
          - |
            apiVersion: llm-d.ai/v1alpha1
            kind: EndpointPickerConfig
            plugins:
            - type: queue-scorer
              parameters:
                threshold: 3
";
    let path = "spec.router.scheduler.template.containers[0].args[1].plugins[0].parameters.threshold";
    assert_eq!(said(&service(lines)), [format!("20:17 error {path} PickerConfigRefused")]);
    let alpha = lines.replace("queue-scorer", "session-affinity-scorer").replace("threshold: 3", "{}");
    assert_eq!(
        said(&service(&alpha)),
        [
            "18:15 error spec.router.scheduler.template.containers[0].args[1].plugins[0].type PickerConfigRefused"
        ]
    );
    let allowed =
        alpha.replace("- --config-text", "- --allow-experimental-plugins\n          - --config-text");
    assert_eq!(said(&service(&allowed)), [""; 0]);
}

#[test]
fn a_configuration_of_a_layer_is_judged_at_its_line_there() {
    let config = with_picker(&PICKER.replacen("queue-scorer", "queue-scorerr", 1))
        .replace("kind: LLMInferenceService\n", "kind: LLMInferenceServiceConfig\n")
        .replace("name: one", "name: base")
        .replace("  model:\n    uri: hf://org/model\n", "  replicas: 1\n");
    let service = service("  baseRefs: [{name: base}]\n");
    assert_eq!(
        said(&format!("{config}---\n{service}")),
        ["13:13 error spec.router.scheduler.config.inline.plugins[0].type PickerConfigRefused"]
    );
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
fn a_section_of_a_picker_without_its_feature_gate_is_warned_about() {
    let flow = |gates: &str| {
        let config = PICKER.replacen("v1alpha1", "v1", 1) + gates + "flowControl:\n  maxBytes: 1Gi\n";
        told(&with_picker(&config))
    };
    let found = flow("");
    let [line] = found.as_slice() else { panic!("{found:#?}") };
    assert!(
        line.contains("warning spec.router.scheduler.config.inline.flowControl: flowControl: no effect"),
        "{line}"
    );
    assert!(line.contains("featureGates"), "{line}");
    assert_eq!(flow("featureGates: [flowControl]\n"), Vec::<String>::new());
}

#[test]
fn parameters_that_the_controller_leaves_out_are_warned_about() {
    let with = |parameters: &str| {
        let scorer =
            format!("- type: prefix-cache-scorer\n  parameters: {parameters}\n- type: max-score-picker");
        said(&with_picker(&PICKER.replacen("- type: max-score-picker", &scorer, 1)))
    };
    let at = "warning spec.router.scheduler.config.inline.plugins[1].parameters";
    let why = "PickerConfigWithoutEffect";
    assert_eq!(
        with("{hashBlockSize: 5, lruCapacityPerServer: 9}"),
        [
            format!("16:26 {at}.hashBlockSize {why} (remove it)"),
            format!(
                "16:44 {at}.lruCapacityPerServer {why} (write it as a parameter of a plugin of the type \
                 `approx-prefix-cache-producer`)"
            ),
        ]
    );
    assert_eq!(with("{}"), [""; 0]);
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
fn a_config_map_that_has_no_picker_configuration_is_blamed_itself() {
    let service = service("  router: {scheduler: {config: {ref: {name: pick, key: epp}}}}\n");
    for text in ["plugins: [", "only words"] {
        let map = format!(
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: pick}}\ndata:\n  epp: |\n    {text}\n"
        );
        let found = report(&format!("{service}{map}")).findings;
        let said: Vec<String> =
            found.iter().map(|finding| format!("{} {}", finding.path, finding.message)).collect();
        assert_eq!(said.len(), 1, "{said:#?}");
        assert!(
            said[0].starts_with("data.epp the picker will not start: ")
                && said[0].contains("the endpoint picker configuration: "),
            "{said:#?}"
        );
        assert!(found[0].line >= Some(12), "{:?}", found[0]);
    }
}

#[test]
fn arguments_that_our_programs_refuse_are_errors_at_the_argument() {
    let service = |args: &str| {
        format!(
            "apiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceService\nmetadata: {{name: one}}\nspec:\n  model: {{uri: 'hf://a/b'}}\n{args}"
        )
    };
    let picker = |args: &str| {
        service(&format!(
            "  router:\n    gateway: {{}}\n    route: {{}}\n    scheduler:\n      template:\n        containers:\n        - name: main\n          args: {args}\n"
        ))
    };
    let sidecar = |args: &str| {
        service(&format!(
            "  router: {{gateway: {{}}, route: {{}}, scheduler: {{}}}}\n  prefill: {{replicas: 1}}\n  template:\n    initContainers:\n    - name: llm-d-routing-sidecar\n      args: {args}\n"
        ))
    };
    let said = |text: &str| -> Vec<String> {
        let show = |finding: &Finding| {
            format!("{} {} {}: {}", finding.line.unwrap(), finding.reason, finding.path, finding.message)
        };
        report(text).findings.iter().map(show).collect()
    };
    let at_picker = "13 ArgumentRefused spec.router.scheduler.template.containers[0].args";
    let at_sidecar = "11 ArgumentRefused spec.template.initContainers[0].args";
    let refuses = |role: &str, why: &str| format!("the {role} will not start: {why}");
    let (picker_main, sidecar_name) =
        ("picker in container main", "sidecar in container llm-d-routing-sidecar");
    for (text, place, message) in [
        (
            picker("['-v=4', '--poolname=x']"),
            format!("{at_picker}[1]"),
            refuses(
                picker_main,
                "unexpected argument '--poolname' found; a similar argument exists: '--pool-name'",
            ),
        ),
        (
            picker("[--refresh-metrics-interval, 0s]"),
            format!("{at_picker}[1]"),
            refuses(picker_main, "--refresh-metrics-interval: must be positive"),
        ),
        (
            sidecar("['--connector=lmcache']"),
            format!("{at_sidecar}[0]"),
            refuses(
                sidecar_name,
                "--kv-connector: unknown connector `lmcache`; expected nixlv2, shared-storage, sglang, mooncake or offloading",
            ),
        ),
        (
            sidecar("['--vllm-prot=1']"),
            format!("{at_sidecar}[0]"),
            refuses(
                sidecar_name,
                "unexpected argument '--vllm-prot' found; a similar argument exists: '--vllm-port'",
            ),
        ),
    ] {
        assert_eq!(said(&text), [format!("{place}: {message}")], "{text}");
    }
    // A program in another image may know more, and a pod may know what its variables are.
    for text in [
        picker("['--poolname=x']\n          image: example.com/picker:1"),
        picker("['--grpc-port=$(PORT)']\n          env: [{name: PORT, value: '9002'}]"),
        picker("['--write-trace=/traces']"),
        sidecar("['--connector=mooncake', '']"),
    ] {
        assert_eq!(said(&text), Vec::<String>::new(), "{text}");
    }
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
