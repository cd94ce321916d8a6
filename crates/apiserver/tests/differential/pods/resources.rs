//! The resources of a pod as a whole, beside those of its containers.

use serde_json::{Value, json};

/// Returns specs in which the resources of the pod are more or less than those of its containers.
pub(super) fn specs() -> Vec<Value> {
    let mut all = Vec::new();
    for pod in of_pods() {
        for main in of_containers() {
            for init in init_containers() {
                let container = |name: &str| json!({"name": name, "image": "i", "resources": main});
                all.push(json!({
                    "resources": pod, "containers": [container("c"), container("d")], "initContainers": init,
                    "serviceAccountName": "default",
                }));
            }
        }
    }
    let with = |resources: Value, system: &str| {
        let container = json!({"name": "c", "image": "i"});
        json!({"containers": [container], "resources": resources, "os": {"name": system}})
    };
    all.extend([json!({}), json!({"limits": {"cpu": "1"}})].map(|resources| with(resources, "windows")));
    let names = ["foo", "pods", "ephemeral-storage", "nvidia.com/gpu", "a b", "hugepages-2Mi"];
    all.extend(names.map(|name| with(json!({"limits": {name: "2Mi"}}), "linux")));
    all.push(with(json!({"claims": [{"name": "x"}]}), "linux"));
    all
}

fn of_pods() -> Vec<Value> {
    vec![
        json!({}),
        json!({"requests": {"cpu": "1"}}),
        json!({"limits": {"cpu": "1"}}),
        json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"memory": "512Mi"}}),
        json!({"limits": {"cpu": "1", "hugepages-2Mi": "2Mi"}}),
        json!({"limits": {"cpu": "1", "hugepages-2Mi": "4Mi"}, "requests": {"cpu": "1", "hugepages-2Mi": "2Mi"}}),
        json!({"limits": {"cpu": "-1"}, "requests": {"cpu": "2"}}),
    ]
}

fn of_containers() -> Vec<Value> {
    vec![
        json!({}),
        json!({"requests": {"cpu": "500m"}}),
        json!({"limits": {"cpu": "600m", "memory": "1000M"}}),
        json!({"limits": {"memory": "2Gi"}, "requests": {"cpu": "0", "memory": "200Mi"}}),
        json!({"limits": {"cpu": "100m", "hugepages-2Mi": "2Mi"}}),
    ]
}

fn init_containers() -> Vec<Value> {
    let init = |name: &str, policy: Option<&str>, resources: Value| {
        let mut container = json!({"name": name, "image": "i", "resources": resources});
        if let Some(policy) = policy {
            container["restartPolicy"] = policy.into();
        }
        container
    };
    let (cpu, memory) = (json!({"requests": {"cpu": "800m"}}), json!({"limits": {"memory": "900Mi"}}));
    let sidecar = |resources: &Value| init("s", Some("Always"), resources.clone());
    vec![
        json!([]),
        json!([init("x", None, cpu.clone()), init("y", None, memory.clone())]),
        json!([sidecar(&cpu), init("y", None, cpu.clone())]),
        json!([init("x", None, cpu), sidecar(&memory)]),
    ]
}
