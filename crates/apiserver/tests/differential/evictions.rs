//! Evicts the same pods on a real kube-apiserver and on the embedded server. No controller runs, so the budgets have the statuses that
//! this test gives them.

use serde_json::{Value, json};

use crate::api::Api;

const PODS: &str = "/api/v1/namespaces/evictions/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/evictions/poddisruptionbudgets";

/// Returns the answers to evictions in many states, and what the budgets say afterwards.
pub(crate) fn outcomes(api: &Api) -> Vec<Value> {
    api.make_namespace("evictions");
    let account = json!({"metadata": {"name": "default"}});
    api.post("/api/v1/namespaces/evictions/serviceaccounts", &account);
    let mut found = Vec::new();
    let status = |generation: i64, allowed: i64, current: i64, desired: i64| {
        json!({"observedGeneration": generation, "disruptionsAllowed": allowed, "currentHealthy": current,
            "desiredHealthy": desired, "expectedPods": 3})
    };
    let cases = [
        ("ready", "Running", true, vec![(json!({}), status(1, 1, 3, 2))]),
        ("again", "Running", true, vec![(json!({}), status(1, 0, 2, 2))]),
        ("unseen", "Running", true, vec![(json!({}), status(0, 1, 3, 2))]),
        ("uncovered", "Running", true, vec![]),
        ("twice", "Running", true, vec![(json!({}), status(1, 1, 3, 2)), (json!({}), status(1, 1, 3, 2))]),
        ("pending", "Pending", false, vec![(json!({}), status(1, 0, 2, 2))]),
        ("failed", "Failed", false, vec![(json!({}), status(1, 0, 2, 2))]),
        ("unready", "Running", false, vec![(json!({}), status(1, 0, 2, 2))]),
        ("short", "Running", false, vec![(json!({}), status(1, 0, 1, 2))]),
        (
            "always",
            "Running",
            false,
            vec![(json!({"unhealthyPodEvictionPolicy": "AlwaysAllow"}), status(1, 0, 1, 2))],
        ),
    ];
    for (name, phase, is_ready, budgets) in cases {
        let labels = json!({"app": name});
        let containers = json!([{"name": "main", "image": "i"}]);
        // The finalizer keeps the evicted pod, so that its conditions can be compared.
        let metadata = json!({"name": name, "labels": labels, "finalizers": ["example.com/keep"]});
        let pod = json!({"metadata": metadata, "spec": {"containers": containers}});
        api.post(PODS, &pod).ok();
        let ready = json!([{"type": "Ready", "status": if is_ready { "True" } else { "False" }}]);
        let pod_status = json!({"status": {"phase": phase, "conditions": ready}});
        api.merge(&format!("{PODS}/{name}/status"), &pod_status).ok();
        let mut pages = vec![format!("{PODS}/{name}")];
        for (index, (mut spec, status)) in budgets.into_iter().enumerate() {
            let budget = format!("{name}-{index}");
            spec["selector"] = json!({"matchLabels": labels});
            spec["minAvailable"] = 2.into();
            api.post(BUDGETS, &json!({"metadata": {"name": budget}, "spec": spec})).ok();
            api.merge(&format!("{BUDGETS}/{budget}/status"), &json!({"status": status})).ok();
            pages.push(format!("{BUDGETS}/{budget}"));
        }
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
        for query in ["?dryRun=All", ""] {
            let answer = api.post(&format!("{PODS}/{name}/eviction{query}"), &eviction);
            found.push(json!([name, query, answer.status, answer.body["message"], answer.body["details"]]));
            for page in &pages {
                let answer = api.get(page);
                let status = &answer.body["status"];
                let disrupted =
                    status["disruptedPods"].as_object().map(|pods| pods.keys().collect::<Vec<_>>());
                let conditions = status["conditions"].as_array().into_iter().flatten();
                let conditions: Vec<_> = conditions
                    .map(|found| json!([found["type"], found["status"], found["reason"], found["message"]]))
                    .collect();
                found.push(json!([page, answer.status, status["disruptionsAllowed"], disrupted, conditions]));
            }
        }
    }
    found
}
