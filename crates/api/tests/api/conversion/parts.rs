//! Tests with parts of objects, as server-side apply converts them.

use serde_json::{Value, json};

use super::{down, up};

#[expect(clippy::needless_pass_by_value, reason = "parts are written where they are used")]
fn with(version: &str, rest: Value) -> Value {
    let mut object =
        json!({"apiVersion": format!("serving.kserve.io/{version}"), "kind": "LLMInferenceService"});
    object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    object
}

#[expect(clippy::needless_pass_by_value, reason = "parts are written where they are used")]
fn pool(pool: Value) -> Value {
    json!({"spec": {"router": {"scheduler": {"pool": {"spec": pool}}}}})
}

#[test]
fn missing_parents_are_not_made() {
    for part in [
        json!({}),
        json!({"metadata": {}}),
        json!({"spec": {}, "status": {}}),
        json!({"spec": null, "status": null}),
        json!({"spec": {"model": null, "prefill": null, "router": null}}),
        json!({"spec": {"router": {"scheduler": {"pool": {"spec": null}}}}}),
        json!({"spec": {"model": {"lora": {"adapters": [null, 5, "x"]}}}}),
        json!({"spec": {"model": [], "prefill": 5, "router": "x"}, "status": []}),
        json!({"metadata": {"annotations": {"internal.serving.kserve.io/model-criticality": "Critical"}}}),
    ] {
        assert_eq!(up(&with("v1alpha1", part.clone())), with("v1alpha2", part.clone()));
        assert_eq!(down(&with("v1alpha2", part.clone())), with("v1alpha1", part));
    }
}

#[test]
fn parts_of_a_pool_are_converted_as_far_as_they_go() {
    for (newer, older) in [
        (json!({"targetPorts": []}), json!({})),
        (json!({"targetPorts": [{}]}), json!({})),
        (json!({"targetPorts": null, "selector": null}), json!({"selector": null})),
        (json!({"selector": {}}), json!({})),
        (json!({"appProtocol": "http"}), json!({})),
        (
            json!({"endpointPickerRef": {"name": "e", "port": {"number": 1}}}),
            json!({"extensionRef": {"name": "e", "portNumber": 1}}),
        ),
        (json!({"endpointPickerRef": {"port": {}}}), json!({"extensionRef": {}})),
        // The schema refuses wrong types later.
        (json!({"targetPorts": "x", "selector": 5}), json!({"targetPortNumber": "x", "selector": 5})),
        (json!({"endpointPickerRef": 5}), json!({"extensionRef": 5})),
    ] {
        let mut converted = down(&with("v1alpha2", pool(newer)));
        converted.as_object_mut().unwrap().remove("metadata");
        assert_eq!(converted, with("v1alpha1", pool(older)));
    }
    for (older, newer) in [
        (json!({"targetPortNumber": null}), json!({})),
        (json!({"targetPortNumber": "x"}), json!({"targetPorts": [{"number": "x"}], "appProtocol": "http"})),
        (json!({"extensionRef": 5}), json!({"endpointPickerRef": 5, "appProtocol": "http"})),
    ] {
        assert_eq!(up(&with("v1alpha1", pool(older))), with("v1alpha2", pool(newer)));
    }
}
