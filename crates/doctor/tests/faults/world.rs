//! A world without faults, and the findings after something in it was changed.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::jiff::Timestamp;
use longboat_compose::{PresetNames, presets};
use longboat_doctor::{Answers, Facts, Finding, examine, to_text};
use longboat_key::{Key, Name, Namespace};
use longboat_plan::Snapshot;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(crate) fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn arc<K: DeserializeOwned>(value: Value) -> Arc<K> {
    Arc::new(object(value))
}

pub(crate) fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

pub(crate) const READY: [(&str, &str, &str, &str); 1] = [("Ready", "True", "", "")];

/// A service with these conditions.
pub(crate) fn service(conditions: &[(&str, &str, &str, &str)]) -> Value {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(type_, status, reason, message)| condition(type_, status, reason, message))
        .collect();
    json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
        "metadata": {"name": "llm", "namespace": "ns", "uid": "u", "generation": 2},
        "spec": {"model": {"uri": "hf://org/model"}, "router": {"route": {}, "gateway": {}, "scheduler": {}}},
        "status": {
            "observedGeneration": 2, "conditions": conditions, "url": "http://gw/ns/llm",
            "workloads": {"primary": {"kind": "Deployment", "name": "llm-kserve"}},
        },
    })
}

pub(crate) fn crd(name: &str, version: &str) -> Value {
    let (plural, group) = name.split_once('.').unwrap();
    json!({
        "metadata": {"name": name},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": "X"},
            "versions": [{"name": version, "served": true, "storage": true}],
        },
        "status": {
            "storedVersions": [version],
            "conditions": [condition("Established", "True", "InitialNamesAccepted", "")],
        },
    })
}

pub(crate) fn pod(name: &str, labels: &Value, status: &Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "ns", "labels": labels}, "spec": {"containers": []}, "status": status})
}

pub(crate) fn ready_pod() -> Value {
    pod("llm-kserve-1", &json!({"app": "llm"}), &json!({"conditions": [condition("Ready", "True", "", "")]}))
}

pub(crate) fn waiting(container: &str, reason: &str, message: &str) -> Value {
    json!({"containerStatuses": [{
        "name": container, "image": "example.com/vllm:1", "imageID": "", "ready": false, "restartCount": 3,
        "state": {"waiting": {"reason": reason, "message": message}},
    }]})
}

/// A cluster with one service that works.
pub(crate) fn well() -> Facts {
    let names = PresetNames::default();
    let mut snapshot = Snapshot::empty(Timestamp::now(), Arc::default(), Namespace("kserve").to_shared());
    let mut platform = longboat_compose::Platform::default();
    platform.ingress.gateway = Key::new(Namespace("kserve"), Name("gw"));
    snapshot.platform = Arc::new(platform);
    snapshot.gateways.insert(arc(json!({
        "metadata": {"name": "gw", "namespace": "kserve", "generation": 1},
        "spec": {"gatewayClassName": "envoy", "listeners": []},
        "status": {
            "addresses": [{"value": "10.0.0.1"}],
            "conditions": [condition("Accepted", "True", "Accepted", ""), condition("Programmed", "True", "Programmed", "")],
        },
    })));
    snapshot.gateway_classes.insert(arc(json!({
        "metadata": {"name": "envoy"}, "spec": {"controllerName": "example.com/gateway"},
        "status": {"conditions": [condition("Accepted", "True", "Accepted", "")]},
    })));
    let parent = json!({"name": "gw", "namespace": "kserve"});
    let taken = [
        condition("Accepted", "True", "Accepted", ""),
        condition("ResolvedRefs", "True", "ResolvedRefs", ""),
    ];
    snapshot.http_routes.insert(arc(json!({
        "metadata": {"name": "llm-kserve-route", "namespace": "ns", "generation": 3},
        "spec": {"parentRefs": [parent]},
        "status": {"parents": [{"parentRef": parent, "controllerName": "example.com/gateway", "conditions": taken}]},
    })));
    snapshot.inference_pools.insert(arc(json!({
        "metadata": {"name": "llm-inference-pool", "namespace": "ns"},
        "spec": {"selector": {"matchLabels": {"app": "llm"}}, "targetPorts": [{"number": 8000}],
                 "endpointPickerRef": {"name": "llm-epp-service", "port": {"number": 9002}}},
        "status": {"parents": [{"parentRef": parent, "conditions": taken}]},
    })));
    snapshot.deployments.insert(arc(json!({
        "metadata": {"name": "llm-kserve", "namespace": "ns"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "llm"}}, "template": {}},
        "status": {"availableReplicas": 1},
    })));
    snapshot.services.insert(arc(json!({
        "metadata": {"name": "llm-kserve-workload-svc", "namespace": "ns"}, "spec": {"selector": {"app": "llm"}},
    })));
    let (pem, _) = certificate(365);
    let ca = bytes(&pem);
    let webhook = |kind: &str| {
        json!({
            "metadata": {"name": format!("{kind}.serving.kserve.io")},
            "webhooks": [{
                "name": "a.b.c", "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": {"caBundle": ca},
            }],
        })
    };
    let own = ["llminferenceservices", "llminferenceserviceconfigs"]
        .map(|name| format!("{name}.serving.kserve.io"));
    let configs = presets::builtin(&names, Namespace("kserve")).unwrap();
    Facts {
        definitions: own.iter().map(|name| (name.clone(), object(crd(name, "v1alpha2")))).collect(),
        configs: configs.into_iter().map(Arc::new).collect(),
        services: vec![arc(service(&READY))],
        pods: vec![object(ready_pod())],
        controller: Some(object(json!({
            "metadata": {"name": "llmisvc-controller-manager", "namespace": "kserve"},
            "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "controller"}}, "template": {}},
            "status": {"availableReplicas": 2},
        }))),
        mutating: vec![object(webhook("llminferenceservice"))],
        validating: ["llminferenceservice", "llminferenceserviceconfig"]
            .map(|kind| object(webhook(kind)))
            .into(),
        answers: BTreeMap::from([(
            "ns/llm".to_owned(),
            Answers { at_url: Some(Ok(200)), at_workload: None },
        )]),
        ..Facts::new(snapshot, names)
    }
}

/// Creates a certificate that is valid for some days, and its key.
pub(crate) fn certificate(days: u32) -> (String, String) {
    let leaf = longboat_tls::LeafRequest {
        common_name: "test".into(),
        organization: "test".into(),
        dns_names: Vec::new(),
        ips: Vec::new(),
        days,
        client_auth: false,
    };
    let pair = longboat_tls::self_signed(&leaf).unwrap();
    (pair.certificate_pem, pair.key_pem)
}

/// Returns bytes in the form of Kubernetes' JSON.
pub(crate) fn bytes(pem: &str) -> Value {
    serde_json::to_value(k8s_openapi::ByteString(pem.as_bytes().to_vec())).unwrap()
}

/// Returns the findings after one change to a world without faults.
pub(crate) fn with(change: impl FnOnce(&mut Facts)) -> Vec<Finding> {
    let mut facts = well();
    change(&mut facts);
    examine(&facts)
}

/// Makes the service not ready for this reason.
pub(crate) fn unready(facts: &mut Facts, type_: &str, reason: &str, message: &str) {
    let conditions = [("Ready", "False", reason, message), (type_, "False", reason, message)];
    facts.services = vec![arc(service(&conditions))];
}

/// Checks that there is exactly one finding, with this fault, object, cause and fix. Returns it.
#[track_caller]
pub(crate) fn only(findings: &[Finding], fault: &str, object: &str, cause: &str, fix: &str) -> Finding {
    let [finding] = findings else { panic!("expected one finding, got:\n{}", to_text(findings)) };
    assert_eq!(finding.fault, fault, "{finding:#?}");
    assert_eq!(finding.object, object, "{finding:#?}");
    assert!(finding.cause.contains(cause), "{finding:#?}");
    assert!(finding.fix.contains(fix), "{finding:#?}");
    finding.clone()
}

pub(crate) const LLM: &str = "LLMInferenceService ns/llm";
