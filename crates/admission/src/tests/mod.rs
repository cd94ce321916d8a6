//! Tests of admission through its public functions.

mod local_models;
mod reviews;

use serde_json::{Value, json};

use longboat_compose::{Platform, PresetNames, platform::PlatformError, presets};
use longboat_key::Namespace;

use crate::{Answer, Facts, Mutation, Request, Subject, Version, mutate, validate};

fn create(object: &Value) -> Request<'_> {
    Request { version: Version::V1Alpha2, operation: "CREATE", object: Some(object), old: None }
}

#[test]
fn a_service_gets_its_defaults_once() {
    let object =
        json!({"metadata": {"name": "llm", "namespace": "ns"}, "spec": {"model": {"uri": "hf://a/b"}}});
    let facts = Facts::default();
    let defaulted = mutate(Subject::Service, &create(&object), &facts).unwrap().object.unwrap();
    assert_eq!(defaulted["spec"]["model"]["name"], "llm");
    let again = Request { operation: "UPDATE", old: Some(&object), ..create(&defaulted) };
    assert_eq!(mutate(Subject::Service, &again, &facts).unwrap().object, None);
}

#[test]
fn an_invalid_service_is_refused_with_all_causes() {
    let object = json!({
        "metadata": {"name": "llm", "namespace": "ns"},
        "spec": {
            "model": {"uri": "hf://a/b"},
            "parallelism": {"pipeline": 2, "data": 2, "dataLocal": 1},
            "router": {"scheduler": {"replicas": 0}},
        },
    });
    let denial = validate(Subject::Service, &create(&object), &Facts::default()).denial.unwrap();
    assert_eq!((denial.code, denial.reason), (422, "Invalid"));
    let fields: Vec<_> = denial.details["causes"].as_array().unwrap().iter().map(|c| &c["field"]).collect();
    assert_eq!(fields, ["spec.parallelism", "spec.router.scheduler.replicas"]);
}

#[test]
fn wrong_types_are_a_bad_request() {
    let object = json!({"metadata": {"name": "llm"}, "spec": {"replicas": "two"}});
    assert_eq!(mutate(Subject::Service, &create(&object), &Facts::default()).unwrap_err().code, 400);
}

#[test]
fn a_preset_of_the_platform_is_kept() {
    let preset = |namespace: &str| json!({"metadata": {"name": "kserve-config-llm-template", "namespace": namespace}, "spec": {}});
    let deny = |namespace: &str| {
        let old = preset(namespace);
        let request =
            Request { version: Version::V1Alpha2, operation: "DELETE", object: None, old: Some(&old) };
        validate(Subject::Config, &request, &Facts::default()).denial.map(|denial| denial.code)
    };
    assert_eq!(deny("kserve"), Some(403));
    assert_eq!(deny("elsewhere"), None);
}

#[test]
fn a_defaulted_object_differs_only_by_intent() {
    let object = json!({
        "kind": "LLMInferenceService",
        "metadata": {"name": "llm", "namespace": "ns", "labels": {}},
        "spec": {
            "model": {"uri": "HF://a/b c", "name": ""},
            "replicas": 0, "labels": {}, "unknown": [0, null],
            "template": {"containers": [{"name": "main", "env": [], "image": ""}]},
            "worker": {"tolerations": []},
            "router": {"route": {"group": "blue", "weight": 1}},
        },
    });
    for version in Version::ALL {
        let mut object = object.clone();
        object["apiVersion"] = json!(version.api_version());
        let request = Request { version, ..create(&object) };
        let defaulted = mutate(Subject::Service, &request, &Facts::default()).unwrap().object.unwrap();
        let mut patch = json_patch::diff(&object, &defaulted);
        patch.0.sort_by_key(|operation| operation.path().to_string());
        assert_eq!(
            json!(patch),
            json!([
                {"op": "add", "path": "/metadata/labels/serving.kserve.io~1routing-group", "value": "blue"},
                {"op": "replace", "path": "/spec/model/name", "value": "llm"},
                {"op": "replace", "path": "/spec/model/uri", "value": "hf://a/b%20c"},
                {"op": "add", "path": "/spec/worker/containers", "value": []},
            ])
        );
    }
}

#[test]
fn what_is_being_deleted_passes_whatever_it_is() {
    let object = json!({
        "metadata": {"name": "1llm", "deletionTimestamp": "2026-11-20T10:00:00Z"},
        "spec": {"replicas": "two", "baseRefs": [{"name": "a"}], "labels": {"a": "{{"}},
    });
    for (subject, version) in Subject::ALL.into_iter().flat_map(|s| Version::ALL.map(|v| (s, v))) {
        let request = Request { version, operation: "UPDATE", object: Some(&object), old: Some(&object) };
        assert_eq!(mutate(subject, &request, &Facts::default()).unwrap(), Mutation::default());
        assert_eq!(validate(subject, &request, &Facts::default()), Answer::default());
    }
}

#[test]
fn a_service_that_asks_for_the_picker_that_a_platform_does_not_share_is_warned() {
    let said = |word: &str, shared_picker: bool| {
        let metadata = json!({"name": "llm", "annotations": {"longboat.dev/picker": word}});
        let service = json!({"metadata": metadata, "spec": {"model": {"uri": "hf://a/b"}}});
        let facts =
            Facts { platform: Ok(Platform { shared_picker, ..Platform::default() }), ..Facts::default() };
        let answer = validate(Subject::Service, &create(&service), &facts);
        (answer.denial.map(|denial| denial.message), answer.warnings)
    };
    let warning = "metadata.annotations[longboat.dev/picker] is \"shared\", which has no effect: the service keeps a picker of \
                   its own, because the setting \"longboat\".\"picker\" of the platform is not \"shared\". Set it there, or remove \
                   the annotation";
    assert_eq!(said("shared", false), (None, vec![warning.to_owned()]));
    for (word, shared) in [("shared", true), ("own", true), ("own", false)] {
        assert_eq!(said(word, shared), (None, vec![]), "{word} {shared}");
    }
    let denial = "LLMInferenceService.serving.kserve.io \"llm\" is invalid: metadata.annotations[longboat.dev/picker]: \
                  Unsupported value: \"Shared\": supported values: \"own\", \"shared\"";
    assert_eq!(said("Shared", true), (Some(denial.to_owned()), vec![]));
}

#[test]
fn without_settings_of_the_platform_services_pass_and_templates_are_checked_anyway() {
    let platform = Err(PlatformError::Missing { name: "inferenceservice-config" });
    let facts = Facts { platform, ..Facts::default() };
    let service = json!({"metadata": {"name": "llm"}, "spec": {"model": {"uri": ""}}});
    assert!(mutate(Subject::Service, &create(&service), &facts).is_ok());
    assert_eq!(validate(Subject::Service, &create(&service), &facts).denial, None);

    let config = |text: &str| json!({"metadata": {"name": "a"}, "spec": {"labels": {"a": text}}});
    let answer = validate(Subject::Config, &create(&config("{{ .Spec.Model.Name }}")), &facts);
    assert_eq!(answer.denial, None);
    assert!(answer.warnings[0].contains("\"inferenceservice-config\" not found"), "{:?}", answer.warnings);
    let answer = validate(Subject::Config, &create(&config("{{ .Spec.Nothing }}")), &facts);
    assert_eq!(answer.denial.unwrap().code, 403);
}

#[test]
fn every_preset_that_ships_is_accepted() {
    for preset in presets::builtin(&PresetNames::default(), Namespace("kserve")).unwrap() {
        let preset = serde_json::to_value(preset).unwrap();
        let answer = validate(Subject::Config, &create(&preset), &Facts::default());
        assert_eq!(answer.denial, None, "{}", preset["metadata"]["name"]);
    }
}

/// The schema refuses these objects too, if there is one, before the rules run.
#[test]
fn rules_that_repeat_the_schema_hold_without_it() {
    let keda = |more: Value| {
        let mut keda = json!({"triggers": [{"type": "cron", "metadata": {}}]});
        keda.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        keda
    };
    let hpa_name = json!({"advanced": {"horizontalPodAutoscalerConfig": {"name": "x"}}});
    for (spec, wanted) in [
        (
            json!({"replicas": 1, "scaling": {"maxReplicas": 2, "keda": keda(json!({}))}}),
            vec!["FieldValueInvalid spec.scaling"],
        ),
        (
            json!({"scaling": {"minReplicas": 3, "maxReplicas": 2, "keda": keda(json!({}))}}),
            vec!["FieldValueInvalid spec.scaling.minReplicas"],
        ),
        (
            json!({"scaling": {"maxReplicas": 2, "wva": {}, "keda": {"triggers": []}}}),
            vec!["FieldValueInvalid spec.scaling"],
        ),
        (json!({"scaling": {"maxReplicas": 2}}), vec!["FieldValueRequired spec.scaling"]),
        (
            json!({"scaling": {"maxReplicas": 2, "keda": {"triggers": [], "idleReplicaCount": 1}}}),
            vec![
                "FieldValueRequired spec.scaling.keda.triggers",
                "FieldValueRequired spec.scaling.minReplicas",
            ],
        ),
        (
            json!({"scaling": {"minReplicas": 1, "maxReplicas": 2, "keda": keda(json!({"idleReplicaCount": 1}))}}),
            vec!["FieldValueInvalid spec.scaling.keda.idleReplicaCount"],
        ),
        (
            json!({"scaling": {"maxReplicas": 2, "keda": keda(hpa_name.clone())}}),
            vec!["FieldValueForbidden spec.scaling.keda.advanced.horizontalPodAutoscalerConfig.name"],
        ),
        (
            json!({"prefill": {"scaling": {"maxReplicas": 2, "wva": {"hpa": {}, "keda": {}, "variantCost": "1."}}}}),
            vec![
                "FieldValueInvalid spec.prefill.scaling.wva",
                "FieldValueInvalid spec.prefill.scaling.wva.variantCost",
            ],
        ),
        (
            json!({"scaling": {"maxReplicas": 2, "wva": {"variantCost": "-1"}}}),
            vec!["FieldValueRequired spec.scaling.wva", "FieldValueInvalid spec.scaling.wva.variantCost"],
        ),
        (
            json!({"scaling": {"minReplicas": 1, "maxReplicas": 2, "wva": {"keda": {
                "idleReplicaCount": 2,
                "advanced": {"scalingModifiers": {"target": "1"}, "horizontalPodAutoscalerConfig": {"name": "x"}},
            }}}}),
            vec![
                "FieldValueForbidden spec.scaling.wva.keda.advanced.scalingModifiers",
                "FieldValueForbidden spec.scaling.wva.keda.advanced.horizontalPodAutoscalerConfig.name",
                "FieldValueInvalid spec.scaling.wva.keda.idleReplicaCount",
            ],
        ),
        (
            json!({"parallelism": {"pipeline": 0, "data": -1, "dataLocal": 0}}),
            vec![
                "FieldValueInvalid spec.parallelism.pipeline",
                "FieldValueInvalid spec.parallelism.data",
                "FieldValueInvalid spec.parallelism.dataLocal",
            ],
        ),
        (
            json!({"model": {"uri": "", "lora": {"maxRank": 0, "maxAdapters": 0, "maxCpuAdapters": 0}}}),
            vec![
                "FieldValueInvalid spec.model.lora.maxRank",
                "FieldValueInvalid spec.model.lora.maxAdapters",
                "FieldValueInvalid spec.model.lora.maxCpuAdapters",
            ],
        ),
    ] {
        let object = json!({"metadata": {"name": "llm"}, "spec": spec});
        let denial = validate(Subject::Service, &create(&object), &Facts::default()).denial.unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let causes = denial.details["causes"].as_array().unwrap().iter();
        let found: Vec<_> = causes.map(|c| format!("{} {}", text(&c["reason"]), text(&c["field"]))).collect();
        assert_eq!(found, wanted, "{object}");
    }
}

#[test]
fn where_presets_may_go_their_deletion_warns() {
    let old = json!({"metadata": {"name": "kserve-config-llm-template", "namespace": "kserve"}, "spec": {}});
    let request = Request { version: Version::V1Alpha2, operation: "DELETE", object: None, old: Some(&old) };
    let facts = Facts { prevent_preset_deletion: false, ..Facts::default() };
    let answer = validate(Subject::Config, &request, &facts);
    assert_eq!((answer.denial, answer.warnings.len()), (None, 1));
}

#[test]
fn a_configuration_with_which_no_picker_starts_is_a_warning() {
    let warnings = |kind: Subject, facts: &Facts, spec: Value| {
        let object = json!({"metadata": {"name": "llm", "namespace": "ns"}, "spec": spec});
        let answer = validate(kind, &create(&object), facts);
        assert_eq!(answer.denial, None);
        answer.warnings
    };
    let facts = Facts::default();
    let inline = |plugin: Value| {
        let inline =
            json!({"apiVersion": "llm-d.ai/v1alpha1", "kind": "EndpointPickerConfig", "plugins": [plugin]});
        json!({"router": {"scheduler": {"config": {"inline": inline}}}})
    };
    let service = |plugin: Value| {
        let mut spec = inline(plugin);
        spec["model"] = json!({"uri": "hf://a/b"});
        spec
    };
    let told = "spec.router.scheduler.config.inline: the picker will not start: plugin type \"max-score\" of plugin \
                \"max-score\" has a new name: write \"max-score-picker\"";
    assert_eq!(warnings(Subject::Service, &facts, service(json!({"type": "max-score"}))), [told]);
    assert_eq!(warnings(Subject::Config, &facts, inline(json!({"type": "max-score"}))), [told]);
    let elsewhere = Facts { judges_pickers: false, ..Facts::default() };
    assert_eq!(warnings(Subject::Service, &elsewhere, service(json!({"type": "max-score"}))), [""; 0]);
    // What the controller migrates, what other layers may allow, and what composing replaces, may be right.
    let legacy = json!({"type": "queue-scorer", "parameters": {"hashBlockSize": 5}});
    assert_eq!(warnings(Subject::Service, &facts, service(legacy)), [""; 0]);
    let mut alpha = service(json!({"type": "session-affinity-scorer"}));
    assert_eq!(warnings(Subject::Service, &facts, alpha.clone()).len(), 1);
    alpha["baseRefs"] = json!([{"name": "base"}]);
    assert_eq!(warnings(Subject::Service, &facts, alpha), [""; 0]);
    let template =
        inline(json!({"type": "queue-scorer", "name": "{{ .ObjectMeta.Name }}", "parameters": {"x": 1}}));
    assert_eq!(warnings(Subject::Config, &facts, template), [""; 0]);
}
