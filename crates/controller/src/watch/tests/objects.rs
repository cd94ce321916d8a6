//! The objects of the tests of watches.

use serde_json::{Value, json};

/// Services that do not depend on each other, except for two members of a group.
pub(super) fn services() -> Vec<Value> {
    let service = |name: &str, spec: Value| {
        let mut spec = spec;
        spec["model"] = json!({"uri": "hf://org/model", "name": name});
        json!({
            "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
            "metadata": {"name": name, "namespace": "ns"}, "spec": spec,
        })
    };
    let member = |name: &str| {
        let mut member = service(name, json!({"router": {"route": {"group": "g", "weight": 1}}}));
        member["spec"]["model"]["name"] = "shared".into();
        member
    };
    let picker = json!({"config": {"ref": {"name": "picker", "key": "config"}}});
    vec![
        service(
            "full",
            json!({
                "baseRefs": [{"name": "base"}],
                "template": {"serviceAccountName": "reader", "containers": [{"name": "main"}]},
                "router": {"route": {}, "gateway": {}, "scheduler": picker},
            }),
        ),
        member("blue"),
        member("green"),
        service("plain", json!({})),
        service(
            "external",
            json!({"router": {"gateway": {"refs": [{"name": "own"}]}, "route": {}, "scheduler": {"pool": {"ref": {"name": "own"}}}}}),
        ),
        service("referring", json!({"router": {"route": {"http": {"refs": [{"name": "own"}]}}}})),
        service("scaled", json!({"scaling": {"maxReplicas": 2, "wva": {"hpa": {}}}})),
    ]
}

/// The objects to which the services refer, and similar objects to which none refers.
pub(super) fn surroundings() -> Vec<Value> {
    let object = |version: &str, kind: &str, name: &str, more: Value| {
        let mut object = json!({
            "apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": "ns"},
        });
        object.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        object
    };
    let picker = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n";
    let route = json!({"spec": {
        "parentRefs": [{"name": "own"}],
        "rules": [{"backendRefs": [{"name": "plain-kserve-workload-svc", "port": 8000}]}],
    }});
    let pool = json!({"spec": {
        "endpointPickerRef": {"name": "epp", "port": {"number": 9002}},
        "selector": {"matchLabels": {"a": "b"}}, "targetPorts": [{"number": 8000}],
    }});
    let gateway = json!({"spec": {
        "gatewayClassName": "test", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}],
    }});
    let mut objects = vec![object("v1", "ServiceAccount", "reader", json!({"secrets": [{"name": "keys"}]}))];
    for name in ["keys", "nobodys"] {
        objects.push(object("v1", "Secret", name, json!({"stringData": {"HF_TOKEN": "a"}})));
    }
    for name in ["picker", "nobodys"] {
        objects.push(object("v1", "ConfigMap", name, json!({"data": {"config": picker}})));
    }
    for name in ["base", "nobodys"] {
        objects.push(object(
            "serving.kserve.io/v1alpha2",
            "LLMInferenceServiceConfig",
            name,
            json!({"spec": {"replicas": 1}}),
        ));
    }
    for name in ["own", "nobodys"] {
        objects.push(object("gateway.networking.k8s.io/v1", "Gateway", name, gateway.clone()));
        objects.push(object("gateway.networking.k8s.io/v1", "HTTPRoute", name, route.clone()));
        objects.push(object("inference.networking.k8s.io/v1", "InferencePool", name, pool.clone()));
    }
    for name in ["full", "nobodys"] {
        let labels =
            json!({"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "llminferenceservice"});
        let containers = json!({"containers": [{"name": "main", "image": "x"}]});
        let mut pod = object("v1", "Pod", &format!("{name}-pod"), json!({"spec": containers}));
        pod["metadata"]["labels"] = labels;
        objects.push(pod);
    }
    objects
}
