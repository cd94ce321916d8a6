//! Tests of the addresses and ports of Services.

use k8s_openapi::api::core::v1::Service;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use longboat_apiserver::{ApiServer, Options};
use serde_json::{Value, json};

fn service(name: &str, spec: &Value) -> Service {
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}

#[tokio::test]
async fn addresses_and_node_ports_are_allocated_refused_twice_and_given_back() {
    let server = ApiServer::new(Options::default()).unwrap();
    let services: Api<Service> = Api::default_namespaced(server.client("default"));
    let create = |name: &'static str, spec: Value| {
        let services = services.clone();
        async move { services.create(&PostParams::default(), &service(name, &spec)).await }
    };
    let ports = json!([{"port": 80, "nodePort": 30080}]);
    let first = create("a", json!({"type": "NodePort", "ports": ports})).await.unwrap().spec.unwrap();
    let address = first.cluster_ip.unwrap();
    assert!(address.starts_with("127.96."), "{address}");

    let taken = create("b", json!({"type": "NodePort", "ports": ports})).await.unwrap_err();
    assert!(taken.to_string().contains("provided port is already allocated"), "{taken}");
    let taken = create("b", json!({"clusterIP": address, "ports": [{"port": 80}]})).await.unwrap_err();
    assert!(taken.to_string().contains("already allocated"), "{taken}");
    let outside = create("b", json!({"clusterIP": "192.0.2.1", "ports": [{"port": 80}]})).await.unwrap_err();
    assert!(outside.to_string().contains("127.96.0.0/16"), "{outside}");

    // as a ClusterIP service it keeps its address and loses the port, which others can then use
    let change = Patch::Merge(json!({"spec": {"type": "ClusterIP"}}));
    let changed = services.patch("a", &PatchParams::default(), &change).await.unwrap().spec.unwrap();
    assert_eq!(changed.cluster_ip.as_deref(), Some(address.as_str()));
    assert_eq!(changed.ports.unwrap()[0].node_port, None);
    create("b", json!({"type": "NodePort", "ports": ports})).await.unwrap();

    services.delete("a", &DeleteParams::default()).await.unwrap();
    create("c", json!({"clusterIP": address, "ports": [{"port": 80}]})).await.unwrap();
}

#[tokio::test]
async fn a_headless_service_without_a_selector_may_have_endpoints_of_both_families() {
    let server = ApiServer::new(Options::default()).unwrap();
    let services: Api<Service> = Api::default_namespaced(server.client("default"));
    for (name, spec, policy) in [
        ("a", json!({"clusterIP": "None"}), "RequireDualStack"),
        ("b", json!({"clusterIP": "None", "selector": {"a": "b"}}), "SingleStack"),
    ] {
        let created = services.create(&PostParams::default(), &service(name, &spec)).await.unwrap();
        assert_eq!(created.spec.unwrap().ip_family_policy.as_deref(), Some(policy));
    }
}
