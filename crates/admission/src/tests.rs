//! Admission from outside.

use serde_json::json;

use crate::{Request, Rules, Subject, mutate, validate};

fn rules() -> Rules {
    Rules {
        system_namespace: "kserve".into(),
        preset_prefix: "kserve-".into(),
        prevent_preset_deletion: true,
    }
}

#[test]
fn a_service_gets_its_defaults_once() {
    let object =
        json!({"metadata": {"name": "llm", "namespace": "ns"}, "spec": {"model": {"uri": "hf://a/b"}}});
    let request = Request { operation: "CREATE", object: Some(&object), old: None };
    let defaulted = mutate(Subject::Service, &request).unwrap().unwrap();
    assert_eq!(defaulted["spec"]["model"]["name"], "llm");
    let again = Request { operation: "UPDATE", object: Some(&defaulted), old: Some(&object) };
    assert_eq!(mutate(Subject::Service, &again).unwrap(), None);
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
    let request = Request { operation: "CREATE", object: Some(&object), old: None };
    let denial = validate(Subject::Service, &request, &rules()).denial.unwrap();
    assert_eq!((denial.code, denial.reason), (422, "Invalid"));
    let fields: Vec<_> = denial.details["causes"].as_array().unwrap().iter().map(|c| &c["field"]).collect();
    assert_eq!(fields, ["spec.parallelism", "spec.router.scheduler.replicas"]);
}

#[test]
fn wrong_types_are_a_bad_request() {
    let object = json!({"metadata": {"name": "llm"}, "spec": {"replicas": "two"}});
    let request = Request { operation: "CREATE", object: Some(&object), old: None };
    assert_eq!(mutate(Subject::Service, &request).unwrap_err().code, 400);
}

#[test]
fn a_preset_of_the_platform_is_kept() {
    let preset = |namespace: &str| json!({"metadata": {"name": "kserve-config-llm-template", "namespace": namespace}, "spec": {}});
    let deny = |namespace: &str| {
        let old = preset(namespace);
        let request = Request { operation: "DELETE", object: None, old: Some(&old) };
        validate(Subject::Config, &request, &rules()).denial.map(|denial| denial.code)
    };
    assert_eq!(deny("kserve"), Some(403));
    assert_eq!(deny("elsewhere"), None);
}
