//! The controller with exactly the RBAC rules of `deploy/rbac`.

use serde_json::Value;

use crate::{cluster::ExclusiveCluster, tools, wait::until};

/// Lists the objects of a resource in a namespace. `group` is a path such as `apis/apps/v1`.
fn list(cluster: &ExclusiveCluster, group: &str, namespace: &str, resource: &str) -> Vec<Value> {
    let answer = cluster.server.api.get(&format!("/{group}/namespaces/{namespace}/{resource}"));
    answer.ok()["items"].as_array().unwrap().clone()
}

fn names(objects: &[Value]) -> Vec<&str> {
    objects.iter().map(|object| object["metadata"]["name"].as_str().unwrap()).collect()
}

#[test]
fn the_example_gets_its_children_and_a_status_and_then_nothing_is_written_any_more() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    cluster.namespace("example");
    let example = tools::root().join("examples/single-node/service.yaml");
    let applied = cluster.kubectl(&["apply", "-n", "example", "-f", example.to_str().unwrap()]);
    assert_eq!((applied.stderr.as_str(), applied.status.success()), ("", true), "{applied:#?}");
    let path = "/apis/serving.kserve.io/v1alpha2/namespaces/example/llminferenceservices/qwen";
    let service = until("the service has a status for what it is", || {
        let service = cluster.server.api.get(path).ok();
        let observed = &service["status"]["observedGeneration"];
        let router = service["status"]["conditions"].as_array()?.iter().any(|c| c["type"] == "RouterReady");
        (*observed == service["metadata"]["generation"] && router).then_some(service)
    });
    until("the workload, the picker, the pool and the route are there", || {
        let deployments = list(&cluster, "apis/apps/v1", "example", "deployments");
        let pools = list(&cluster, "apis/inference.networking.k8s.io/v1", "example", "inferencepools");
        let routes = list(&cluster, "apis/gateway.networking.k8s.io/v1", "example", "httproutes");
        names(&deployments) == ["qwen-kserve", "qwen-kserve-router-scheduler"]
            && names(&pools) == ["qwen-inference-pool"]
            && names(&routes) == ["qwen-kserve-route"]
    });
    assert_eq!(service["metadata"]["finalizers"][0], "serving.kserve.io/llmisvc-finalizer");
    // The object does not change any more: a reconcile of a settled service writes nothing.
    let settled = until("the service rests", || {
        let before = cluster.server.api.get(path).ok();
        std::thread::sleep(std::time::Duration::from_secs(1));
        (cluster.server.api.get(path).ok() == before).then_some(before)
    });
    assert_eq!(settled["metadata"]["generation"], 1, "{settled:#}");
    assert!(!cluster.controller_log().contains("panicked"));

    cluster.server.api.delete(path).ok();
    until("the service is gone, and its right to check tokens too", || {
        let bindings = cluster.server.api.get(
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings?labelSelector=app.kubernetes.io%2Fname%3Dqwen",
        );
        let none = bindings.ok()["items"].as_array().is_some_and(Vec::is_empty);
        cluster.server.api.get(path).status == 404 && none
    });
}
