//! Valid reviews, as API servers send them, and invalid ones.

use base64::{Engine, prelude::BASE64_STANDARD};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{Facts, Hook, review};

const MUTATE: &str = "/mutate-serving-kserve-io-v1alpha2-llminferenceservice";
const VALIDATE: &str = "/validate-serving-kserve-io-v1alpha2-llminferenceservice";

fn request(operation: &str, object: &Value) -> Value {
    json!({
        "uid": "u-1",
        "resource": {"group": "serving.kserve.io", "version": "v1alpha2", "resource": "llminferenceservices"},
        "operation": operation,
        "object": object,
    })
}

fn ask(path: &str, api_version: &str, request: &Value) -> Value {
    let body = json!({"apiVersion": api_version, "kind": "AdmissionReview", "request": request});
    let reply = review(Hook::at(path).unwrap(), body.to_string().as_bytes(), &Facts::default()).unwrap();
    serde_json::from_slice(&reply).unwrap()
}

fn service() -> Value {
    json!({"metadata": {"name": "llm"}, "spec": {"model": {"uri": "hf://a/b"}}})
}

#[test]
fn defaults_come_as_a_patch_in_the_version_of_the_review() {
    for version in ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"] {
        let reply = ask(MUTATE, version, &request("CREATE", &service()));
        let patch = BASE64_STANDARD.decode(reply["response"]["patch"].as_str().unwrap()).unwrap();
        let patch: Value = serde_json::from_slice(&patch).unwrap();
        assert_eq!(patch, json!([{"op": "add", "path": "/spec/model/name", "value": "llm"}]));
        let mut reply = reply;
        reply["response"].as_object_mut().unwrap().remove("patch");
        let response = json!({"uid": "u-1", "allowed": true, "patchType": "JSONPatch"});
        assert_eq!(reply, json!({"apiVersion": version, "kind": "AdmissionReview", "response": response}));
    }
}

#[test]
fn what_needs_no_default_gets_no_patch() {
    let mut object = service();
    object["spec"]["model"]["name"] = json!("llm");
    let reply = ask(MUTATE, "admission.k8s.io/v1", &request("CREATE", &object));
    assert_eq!(reply["response"], json!({"uid": "u-1", "allowed": true}));
}

#[test]
fn a_refusal_carries_a_status_with_its_causes() {
    let mut object = service();
    object["spec"]["worker"] = json!({"containers": []});
    let reply = ask(VALIDATE, "admission.k8s.io/v1", &request("CREATE", &object));
    let status = &reply["response"]["status"];
    assert_eq!(reply["response"]["allowed"], false);
    assert_eq!((&status["code"], &status["reason"]), (&json!(422), &json!("Invalid")));
    assert_eq!(status["details"]["causes"][0]["field"], "spec.worker");
}

#[test]
fn a_request_for_something_else_is_refused_by_name() {
    for (request, word) in [
        (json!({"uid": "u-1"}), "llminferenceservices"),
        (
            json!({"uid": "u-1", "operation": "CREATE", "object": {}, "resource":
                {"group": "serving.kserve.io", "version": "v1alpha9", "resource": "llminferenceservices"}}),
            "v1alpha9",
        ),
        (request("CREATE", &Value::Null), "has no object"),
        (request("DELETE", &service()), "has no oldObject"),
        (request("CONNECT", &service()), "CONNECT"),
        (request("CREATE", &json!("text")), "json: cannot unmarshal string"),
    ] {
        let reply = ask(VALIDATE, "admission.k8s.io/v1", &request);
        let response = &reply["response"];
        assert_eq!((&response["uid"], &response["allowed"]), (&json!("u-1"), &json!(false)));
        assert_eq!(response["status"]["code"], 400);
        let message = response["status"]["message"].as_str().unwrap();
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn a_body_that_is_no_review_is_malformed() {
    let hook = Hook::at(VALIDATE).unwrap();
    for (body, word) in [
        ("", "EOF"),
        ("{", "EOF"),
        ("[]", "AdmissionReview"),
        ("{}", "AdmissionReview"),
        (
            r#"{"apiVersion": "admission.k8s.io/v2", "kind": "AdmissionReview", "request": {}}"#,
            "admission.k8s.io/v2",
        ),
        (
            r#"{"apiVersion": "admission.k8s.io/v1", "kind": "ConversionReview", "request": {}}"#,
            "ConversionReview",
        ),
        (r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}"#, "no request"),
    ] {
        let error = review(hook, body.as_bytes(), &Facts::default()).unwrap_err().to_string();
        assert!(error.contains(word), "{body}: {error}");
    }
}

#[test]
fn every_path_leads_to_its_own_webhook() {
    let paths: Vec<_> = Hook::all().map(|hook| hook.path()).collect();
    assert_eq!(paths.len(), 6);
    for hook in Hook::all() {
        assert_eq!(Hook::at(&hook.path()), Some(hook));
    }
    assert_eq!(Hook::at("/mutate-serving-kserve-io-v1alpha2-llminferenceserviceconfig"), None);
    assert_eq!(
        Hook::at(MUTATE).unwrap().name(),
        "llminferenceservice.kserve-webhook-server.v1alpha2.defaulter"
    );
}

/// JSON with the names of our fields and values of any type.
fn any_json() -> impl Strategy<Value = Value> {
    let keys = prop::sample::select(vec![
        "metadata",
        "name",
        "namespace",
        "labels",
        "annotations",
        "spec",
        "model",
        "uri",
        "lora",
        "adapters",
        "template",
        "containers",
        "worker",
        "prefill",
        "router",
        "route",
        "scheduler",
        "pool",
        "config",
        "ref",
        "scaling",
        "parallelism",
        "data",
        "rolloutStrategy",
        "maxSurge",
        "kvCacheOffloading",
        "cpu",
        "secondary",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z{}:/%.]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(keys.clone().prop_map(ToOwned::to_owned), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_object_gets_an_answer_and_defaults_only_once(object in any_json(), old in any_json()) {
        for hook in Hook::all() {
            let mut request = request("UPDATE", &object);
            request["oldObject"] = old.clone();
            request["resource"] = json!({
                "group": "serving.kserve.io", "version": hook.version.name(), "resource": hook.subject.resource(),
            });
            let reply = ask(&hook.path(), "admission.k8s.io/v1", &request);
            prop_assert!(reply["response"]["allowed"].is_boolean());
        }
        let asked = super::create(&object);
        if let Ok(mutation) = crate::mutate(crate::Subject::Service, &asked, &Facts::default())
            && let Some(defaulted) = mutation.object
        {
            let again = crate::mutate(crate::Subject::Service, &super::create(&defaulted), &Facts::default());
            prop_assert_eq!(again.unwrap().object, None);
        }
    }
}
