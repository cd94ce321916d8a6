//! The services of the measurement: single-node, with managed route, gateway and scheduler, in ten namespaces.

use std::{
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::api::Api;

/// The number of namespaces with services.
pub(crate) const NAMESPACES: usize = 10;
/// The number of clients that create services in parallel.
const CLIENTS: usize = 8;
/// The children of each service: path, plural, and number.
pub(crate) const CHILDREN: [(&str, &str, usize); 9] = [
    ("apis/apps/v1", "deployments", 2),
    ("api/v1", "services", 2),
    ("api/v1", "secrets", 1),
    ("api/v1", "serviceaccounts", 1),
    ("apis/rbac.authorization.k8s.io/v1", "roles", 1),
    ("apis/rbac.authorization.k8s.io/v1", "rolebindings", 1),
    ("apis/inference.networking.k8s.io/v1", "inferencepools", 1),
    ("apis/inference.networking.x-k8s.io/v1alpha2", "inferencepools", 1),
    ("apis/gateway.networking.k8s.io/v1", "httproutes", 1),
];

pub(crate) fn namespace(number: usize) -> String {
    format!("scale-{}", number % NAMESPACES)
}

pub(crate) fn path(number: usize) -> String {
    format!("/apis/serving.kserve.io/v1alpha2/namespaces/{}/llminferenceservices", namespace(number))
}

pub(crate) fn prepare(api: &Api) {
    for number in 0..NAMESPACES {
        let object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace(number)}});
        api.post("/api/v1/namespaces", &object).ok();
    }
}

pub(crate) fn service(number: usize) -> Value {
    json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
        "metadata": {"name": format!("llm-{number}")},
        "spec": {
            "model": {"uri": "hf://org/model", "name": format!("org/model-{number}")},
            "replicas": 1,
            "router": {"route": {}, "gateway": {}, "scheduler": {}},
        },
    })
}

/// Creates the services, several at a time.
pub(crate) fn create(api: &Api, numbers: Range<usize>) {
    let next = AtomicUsize::new(numbers.start);
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= numbers.end {
                        return;
                    }
                    api.post(&path(number), &service(number)).ok();
                }
            });
        }
    });
}

/// The number of objects of a kind that services own.
fn owned(api: &Api, root: &str, plural: &str) -> usize {
    let selector = "labelSelector=app.kubernetes.io%2Fpart-of%3Dllminferenceservice";
    api.get(&format!("/{root}/{plural}?{selector}")).ok()["items"].as_array().map_or(0, Vec::len)
}

/// Checks that all children of `services` services exist.
pub(crate) fn check(api: &Api, services: usize) {
    for (root, plural, each) in CHILDREN {
        let found = owned(api, root, plural);
        // There may be more: the webhooks have a Secret, too.
        assert!(found >= each * services, "{found} {plural} of {services} services");
    }
}

/// Creates a service and waits for its route, which the controller writes last. Returns the time since the response.
pub(crate) fn create_and_wait(api: &Api, number: usize) -> Duration {
    let route = format!(
        "/apis/gateway.networking.k8s.io/v1/namespaces/{}/httproutes/llm-{number}-kserve-route",
        namespace(number)
    );
    api.post(&path(number), &service(number)).ok();
    let start = Instant::now();
    while api.get(&route).status != 200 {
        assert!(start.elapsed() < Duration::from_mins(1), "{route} does not appear");
        thread::sleep(Duration::from_millis(2));
    }
    let took = start.elapsed();
    // Waits until the controller is at rest before the next service.
    thread::sleep(Duration::from_millis(300));
    took
}
