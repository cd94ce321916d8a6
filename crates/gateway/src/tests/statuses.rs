//! Statuses as an API server stores them.

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, PostParams},
};
use longboat_api::foreign::inferencepool::InferencePool;
use longboat_apiserver::{ApiServer, Loops, Options};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    observed,
    traffic::{gateway, route},
};
use crate::{ports::Ports, report::report, resolved::Resolved, route::RouteParser};

pub(super) async fn create(client: &Client, object: Value) {
    let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap_or(("", "v1"));
    let kind = GroupVersionKind::gvk(group, version, object["kind"].as_str().unwrap());
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_pool_says_nothing_of_a_gateway_whose_route_is_gone() {
    let server = ApiServer::new(Options::default()).unwrap();
    let (loops, shutdown) = (server.clone(), CancellationToken::new());
    let ends = shutdown.clone();
    tokio::spawn(async move { loops.run_loops(Loops::default(), ends).await });
    let client = server.client("ns");
    create(&client, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})).await;
    for crd in longboat_api::crd::foreign() {
        create(&client, crd).await;
    }
    let pool = json!({
        "apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool",
        "metadata": {"name": "pool", "namespace": "ns"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "targetPorts": [{"number": 8000}],
            "endpointPickerRef": {"name": "epp", "port": {"number": 9002}}},
    });
    create(&client, pool).await;
    let pools: Api<InferencePool> = Api::namespaced(client.clone(), "ns");
    let in_pool = json!({"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "pool"});
    let led_to = route("r", &json!({"backendRefs": [in_pool]}));
    for (routes, parents) in [(vec![led_to], 1), (vec![], 0)] {
        let mut pool = serde_json::to_value(pools.get("pool").await.unwrap()).unwrap();
        pool["kind"] = "InferencePool".into();
        let gateway = gateway(&json!([{"name": "http", "port": 80, "protocol": "HTTP"}]));
        let observed = observed([vec![gateway, pool], routes].concat());
        let ports = Ports::only([127, 0, 0, 1].into(), 80, &observed.gateways);
        // Only the pool is on the server. Statuses of objects that are gone are not written.
        report(&client, &observed, &Resolved::new(&observed, &ports, &mut RouteParser::default()))
            .await
            .unwrap();
        let status = pools.get("pool").await.unwrap().status;
        assert_eq!(status.unwrap_or_default().parents.len(), parents);
    }
    shutdown.cancel();
}
