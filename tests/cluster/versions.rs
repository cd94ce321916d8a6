//! A real API server converts objects between versions through the controller's webhook.

use serde_json::{Value, json};

use crate::{cluster::ExclusiveCluster, wait::until};

/// Returns the path of services in a version and namespace.
fn services(version: &str, namespace: &str) -> String {
    format!("/apis/serving.kserve.io/{version}/namespaces/{namespace}/llminferenceservices")
}

fn newer(spec: &Value) -> Value {
    json!({
        "apiVersion": "serving.kserve.io/v1alpha2",
        "kind": "LLMInferenceService",
        "metadata": {"name": "llm"},
        "spec": spec,
    })
}

/// Returns a spec with fields that v1alpha1 lacks.
fn full() -> Value {
    json!({
        "model": {
            "uri": "hf://org/model",
            "name": "m",
            "confidential": {"enabled": true, "resourceId": "kbs:///repo/type/tag"},
        },
        "replicas": 0,
        "kvCacheOffloading": {
            "cpu": "10Gi",
            "evictionPolicy": "arc",
            "secondary": [{"fileSystem": {"emptyDir": {"size": "1Gi"}}}],
        },
        "router": {"scheduler": {"pool": {"spec": {
            "selector": {"matchLabels": {"app": "m"}},
            "targetPorts": [{"number": 8000}, {"number": 8001}],
            "appProtocol": "kubernetes.io/h2c",
            "endpointPickerRef": {
                "group": "", "kind": "Service", "name": "epp", "port": {"number": 9002}, "failureMode": "FailOpen",
            },
        }}}},
    })
}

#[test]
fn what_the_old_version_cannot_say_survives_a_read_and_a_write_in_it() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    let api = &cluster.server.api;
    cluster.namespace("round-trip");
    let created = api.post(&services("v1alpha2", "round-trip"), &newer(&full())).ok();
    assert_eq!(created["spec"], full());
    let (old, new) =
        (services("v1alpha1", "round-trip") + "/llm", services("v1alpha2", "round-trip") + "/llm");
    until("a write in the old version that nobody gets in between of", || {
        let mut read = api.get(&old).ok();
        assert!(read["spec"].get("kvCacheOffloading").is_none(), "{read:#}");
        assert_eq!(read["spec"]["router"]["scheduler"]["pool"]["spec"]["targetPortNumber"], 8000, "{read:#}");
        read["spec"]["model"]["criticality"] = json!("Critical");
        read["spec"]["replicas"] = json!(2);
        Some(api.put(&old, &read)).filter(|answer| answer.status != 409)
    })
    .ok();
    let mut expected = full();
    expected["replicas"] = json!(2);
    assert_eq!(api.get(&new).ok()["spec"], expected);
    assert_eq!(api.get(&old).ok()["spec"]["model"]["criticality"], "Critical");
    // A list converts as well.
    let list = api.get(&services("v1alpha1", "round-trip")).ok();
    assert_eq!(list["items"][0]["spec"]["model"]["criticality"], "Critical", "{list:#}");
}

#[test]
fn two_managers_that_apply_in_different_versions_keep_each_others_fields() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    let api = &cluster.server.api;
    cluster.namespace("managers");
    let (old, new) = (services("v1alpha1", "managers") + "/llm", services("v1alpha2", "managers") + "/llm");
    let mut spec = full();
    spec.as_object_mut().unwrap().remove("replicas");
    api.apply(&format!("{new}?fieldManager=new"), &newer(&spec)).ok();
    let older = |spec: Value| {
        json!({
            "apiVersion": "serving.kserve.io/v1alpha1",
            "kind": "LLMInferenceService",
            "metadata": {"name": "llm", "labels": {"team": "a"}},
            "spec": spec,
        })
    };
    let by_old = format!("{old}?fieldManager=old");
    api.apply(
        &by_old,
        &older(json!({"replicas": 3, "model": {"uri": "hf://org/model", "criticality": "Sheddable"}})),
    )
    .ok();
    let stored = api.get(&new).ok();
    let mut expected = spec.clone();
    expected["replicas"] = json!(3);
    assert_eq!(stored["spec"], expected, "{stored:#}");
    assert_eq!(api.get(&old).ok()["spec"]["model"]["criticality"], "Sheddable");

    // The newer manager applies the same again: the older manager keeps its fields.
    api.apply(&format!("{new}?fieldManager=new"), &newer(&spec)).ok();
    assert_eq!(api.get(&new).ok()["spec"], expected);
    // A field that the newer manager no longer applies is removed. The older manager's fields stay.
    spec.as_object_mut().unwrap().remove("kvCacheOffloading");
    api.apply(&format!("{new}?fieldManager=new"), &newer(&spec)).ok();
    expected.as_object_mut().unwrap().remove("kvCacheOffloading");
    assert_eq!(api.get(&new).ok()["spec"], expected);
    // The same holds for the older manager.
    api.apply(&by_old, &older(json!({"model": {"uri": "hf://org/model", "criticality": "Sheddable"}}))).ok();
    expected.as_object_mut().unwrap().remove("replicas");
    assert_eq!(api.get(&new).ok()["spec"], expected);
    // Two managers that apply different values to one field conflict, even in different versions.
    let conflict = api.apply(&by_old, &older(json!({"model": {"uri": "hf://org/other"}})));
    assert_eq!(conflict.status, 409, "{:#}", conflict.body);
    let managers = api.get(&new).ok()["metadata"]["managedFields"].clone();
    let versions: Vec<(&str, &str)> = managers
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["operation"] == "Apply")
        .map(|entry| (entry["manager"].as_str().unwrap(), entry["apiVersion"].as_str().unwrap()))
        .collect();
    assert!(versions.contains(&("new", "serving.kserve.io/v1alpha2")), "{versions:?}");
    assert!(versions.contains(&("old", "serving.kserve.io/v1alpha1")), "{versions:?}");
}

#[test]
fn a_namespace_with_services_can_be_deleted() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    let api = &cluster.server.api;
    cluster.namespace("short-lived");
    let spec = json!({"model": {"uri": "hf://org/model"}, "router": {"scheduler": {}}});
    let one = services("v1alpha2", "short-lived") + "/llm";
    api.post(&services("v1alpha2", "short-lived"), &newer(&spec)).ok();
    until("the controller has seen the service", || {
        let finalizers = &api.get(&one).ok()["metadata"]["finalizers"];
        finalizers.as_array().filter(|all| !all.is_empty()).map(|_| ())
    });
    // The API server has no namespace controller. The test does the same: it deletes and lists every served version of every
    // kind, and at last finalizes the namespace.
    let namespace = api.delete("/api/v1/namespaces/short-lived").ok();
    assert_eq!(namespace["status"]["phase"], "Terminating");
    for version in ["v1alpha1", "v1alpha2"] {
        for kind in ["llminferenceservices", "llminferenceserviceconfigs"] {
            let path = format!("/apis/serving.kserve.io/{version}/namespaces/short-lived/{kind}");
            api.delete(&path).ok();
        }
    }
    for version in ["v1alpha1", "v1alpha2"] {
        until("the namespace holds no service", || {
            let list = api.get(&services(version, "short-lived")).ok();
            list["items"].as_array().is_some_and(Vec::is_empty)
        });
    }
    let mut empty = api.get("/api/v1/namespaces/short-lived").ok();
    empty["spec"]["finalizers"] = json!([]);
    api.put("/api/v1/namespaces/short-lived/finalize", &empty).ok();
    until("the namespace is gone", || api.get("/api/v1/namespaces/short-lived").status == 404);
    // What was on its way when the namespace ended: at most each child, and an event for each.
    let late = cluster.server.all_refusals().into_iter().filter(|refusal| refusal.contains("short-lived"));
    let late: Vec<String> = late.collect();
    assert!(late.len() <= 24, "{} requests into a namespace that is being deleted: {late:#?}", late.len());
}

#[test]
fn an_object_that_an_old_installation_stored_is_read_in_both_versions() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    let api = &cluster.server.api;
    cluster.namespace("stored-long-ago");
    let (old, new) = (services("v1alpha1", "stored-long-ago"), services("v1alpha2", "stored-long-ago"));
    let object = json!({
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "LLMInferenceService",
        "metadata": {"name": "llm"},
        "spec": {"model": {"uri": "hf://org/model", "name": "m", "criticality": "Critical"}},
    });
    let stored = || cluster.server.stored("serving.kserve.io/llminferenceservices/stored-long-ago/llm");
    store_as(&cluster, "v1alpha1");
    // The server learns of the CRD's change through a watch, so this retries.
    until("the object is stored in the old version", || {
        api.post(&old, &object).ok();
        if stored()?["apiVersion"] == "serving.kserve.io/v1alpha1" {
            return Some(());
        }
        api.delete(&format!("{old}/llm")).ok();
        until("it is gone", || api.get(&format!("{old}/llm")).status == 404);
        None
    });
    until("the controller takes care of it", || {
        let service = api.get(&format!("{new}/llm")).ok();
        service["status"]["observedGeneration"] == service["metadata"]["generation"]
    });
    store_as(&cluster, "v1alpha2");
    assert_eq!(stored().unwrap()["apiVersion"], "serving.kserve.io/v1alpha1");
    assert_eq!(api.get(&format!("{old}/llm")).ok()["spec"], object["spec"]);
    let read = api.get(&format!("{new}/llm")).ok();
    assert_eq!(read["spec"], json!({"model": {"uri": "hf://org/model", "name": "m"}}), "{read:#}");
    until("the next write stores it in the new version", || {
        let label = std::process::id().to_string();
        api.merge(&format!("{new}/llm"), &json!({"metadata": {"labels": {"touched": label}}})).ok();
        let version = stored()?["apiVersion"].clone();
        api.merge(&format!("{new}/llm"), &json!({"metadata": {"labels": null}})).ok();
        (version == "serving.kserve.io/v1alpha2").then_some(())
    });
    assert_eq!(api.get(&format!("{old}/llm")).ok()["spec"], object["spec"]);
}

/// Makes `version` the storage version.
fn store_as(cluster: &ExclusiveCluster, version: &str) {
    let path =
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/llminferenceservices.serving.kserve.io";
    let crd = cluster.server.api.get(path).ok();
    let patches = crd["spec"]["versions"].as_array().unwrap().iter().enumerate().map(|(at, found)| {
        json!({"op": "replace", "path": format!("/spec/versions/{at}/storage"), "value": found["name"] == version})
    });
    cluster.server.api.patch(path, &patches.collect()).ok();
}
