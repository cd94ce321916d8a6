//! Admission from outside.

use serde_json::{Value, json};

use crate::{Facts, Request, Subject, Version, mutate, validate};

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
