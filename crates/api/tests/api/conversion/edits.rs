//! Tests of kept fields after somebody has edited the object in `v1alpha1`.

use longboat_api::conversion::{KEPT_PREFIX, KEPT_STATUS};
use serde_json::{Value, json};

use super::{down, up};

fn newer() -> Value {
    json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
        "metadata": {"name": "llm", "namespace": "ns"},
        "spec": {
            "kvCacheOffloading": {"cpu": "1Gi"},
            "prefill": {"kvCacheOffloading": {"cpu": "2Gi"}},
            "model": {"uri": "hf://a/b", "confidential": {"enabled": true, "resourceId": "kbs:///a/b/c"}, "lora": {"adapters": [
                {"name": "a", "criticality": "x"}, {"name": "b"}, {"name": "b", "criticality": "y"},
            ]}},
            "router": {"scheduler": {"pool": {"spec": {
                "selector": {"matchLabels": {"a": "b"}}, "targetPorts": [{"number": 1}, {"number": 2}],
                "appProtocol": "kubernetes.io/h2c",
                "endpointPickerRef": {"name": "e", "kind": "Service", "failureMode": "FailOpen", "port": {"number": 5}},
            }}}},
        },
        "status": {
            "addresses": [{"url": "http://a", "models": [{"name": "m"}]}, {"url": "http://b", "models": [{"name": "n"}]}],
            "appliedConfigs": [{"name": "a", "namespace": "ns", "source": "Preset"}],
        },
    })
}

fn edited(edit: impl FnOnce(&mut Value)) -> Value {
    let mut older = down(&newer());
    edit(&mut older);
    let newer = up(&older);
    assert!(!newer.to_string().contains(KEPT_PREFIX));
    newer
}

fn remove(object: &mut Value, parent: &str, key: &str) {
    object.pointer_mut(parent).unwrap().as_object_mut().unwrap().remove(key);
}

#[test]
fn an_edit_elsewhere_changes_nothing_else() {
    let mut wanted = newer();
    wanted["spec"]["replicas"] = 3.into();
    assert_eq!(edited(|older| older["spec"]["replicas"] = 3.into()), wanted);
}

#[test]
fn nothing_comes_back_under_a_parent_that_was_removed() {
    for (parent, key) in [
        ("", "spec"),
        ("", "status"),
        ("/spec", "prefill"),
        ("/spec", "model"),
        ("/spec", "router"),
        ("/spec/router", "scheduler"),
        ("/spec/router/scheduler", "pool"),
        ("/spec/router/scheduler/pool", "spec"),
        ("/spec/model", "lora"),
        ("/spec/model/lora", "adapters"),
        ("/status", "addresses"),
    ] {
        let mut wanted = newer();
        remove(&mut wanted, parent, key);
        assert_eq!(edited(|older| remove(older, parent, key)), wanted, "{parent}/{key}");
    }
}

#[test]
fn the_further_ports_go_when_the_port_moves() {
    let moved =
        edited(|older| older["spec"]["router"]["scheduler"]["pool"]["spec"]["targetPortNumber"] = 9.into());
    let pool = &moved["spec"]["router"]["scheduler"]["pool"]["spec"];
    assert_eq!(pool["targetPorts"], json!([{"number": 9}]));
    assert_eq!(pool["appProtocol"], "kubernetes.io/h2c");
}

#[test]
fn adapters_are_found_by_name() {
    let moved = edited(|older| {
        older["spec"]["model"]["lora"]["adapters"] =
            json!([{"name": "c"}, {"name": "b"}, {"name": "b"}, {"name": "a"}]);
    });
    assert_eq!(
        moved["spec"]["model"]["lora"]["adapters"],
        json!([{"name": "c"}, {"name": "b"}, {"name": "b", "criticality": "y"}, {"name": "a", "criticality": "x"}])
    );
}

#[test]
fn addresses_are_found_by_name_and_url() {
    let moved =
        edited(|older| older["status"]["addresses"] = json!([{"url": "http://b"}, {"url": "http://c"}]));
    assert_eq!(
        moved["status"]["addresses"],
        json!([{"url": "http://b", "models": [{"name": "n"}]}, {"url": "http://c"}])
    );
}

#[test]
fn a_replaced_object_keeps_what_was_observed_of_it() {
    // `kubectl replace` of a manifest: the server keeps the status, in the version of the request.
    let replaced = edited(|older| {
        remove(older, "/metadata", "annotations");
        older["spec"] = json!({"model": {"uri": "hf://a/b"}});
    });
    assert_eq!(replaced["spec"], json!({"model": {"uri": "hf://a/b"}}));
    assert_eq!(replaced["status"], newer()["status"]);
}

#[test]
fn text_that_was_not_written_here_is_ignored() {
    for (path, text) in [
        ("kvCacheOffloading", ""),
        ("kvCacheOffloading", "5"),
        ("kvCacheOffloading", "[]"),
        ("kvCacheOffloading", "{"),
        ("kvCacheOffloading.secondary", "5"),
        ("kvCacheOffloading.cpu", &"[".repeat(100_000)),
        ("prefill.kvCacheOffloading", "\"x\""),
        ("model.confidential", "true"),
        ("model.confidential.enabled", "\"yes\""),
        ("router.scheduler.pool.spec.targetPorts", "[{\"number\":\"x\"}]"),
        ("router.scheduler.pool.spec.appProtocol", "{}"),
        ("model.lora.adapters", "{}"),
        // Fields that annotations must not set.
        ("replicas", "7"),
        ("model.uri", "\"hf://evil/model\""),
        ("template", "{\"hostNetwork\":true}"),
        ("", "{}"),
    ] {
        let older = json!({
            "apiVersion": "serving.kserve.io/v1alpha1", "kind": "LLMInferenceService",
            "metadata": {"name": "llm", "annotations": {format!("{KEPT_PREFIX}{path}"): text}},
            "spec": {"model": {"uri": "", "lora": {"adapters": [{"name": "a"}]}}, "prefill": {}, "router": {"scheduler": {"pool": {"spec": {}}}}},
        });
        let wanted = json!({
            "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
            "metadata": {"name": "llm"}, "spec": older["spec"],
        });
        assert_eq!(up(&older), wanted, "{path}: {text:.60}");
    }
    for text in ["", "5", "[]", "{", "{\"router\":5}", "{\"appliedConfigs\":{}}", "{\"url\":\"http://evil\"}"]
    {
        let older = json!({
            "apiVersion": "serving.kserve.io/v1alpha1", "kind": "LLMInferenceService",
            "metadata": {"name": "llm"}, "status": {"annotations": {KEPT_STATUS: text}},
        });
        assert_eq!(up(&older)["status"], json!({}), "{text}");
    }
    let mut odd = down(&newer());
    odd["metadata"]["annotations"] = json!({format!("{KEPT_PREFIX}kvCacheOffloading"): {"cpu": "1"}});
    assert_eq!(up(&odd)["metadata"].get("annotations"), None);
}
