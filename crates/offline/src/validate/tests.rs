use longboat_manifest::parse_all;

use super::{Finding, Report, Source, validate};
use crate::Settings;

fn report(text: &str) -> Report {
    validate(parse_all("f.yaml", text), &Settings::default())
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
