//! Statuses as an API server stores them.

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, PostParams},
};
use longboat_api::foreign::inferencepool::InferencePool;
use longboat_apiserver::{ApiServer, Options};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    observed, service, statuses, summary,
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
    tokio::spawn(async move { loops.run_loops(ends).await });
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

#[test]
fn a_policy_that_cannot_be_in_force_says_so_to_every_gateway_that_leads_to_its_service() {
    let pem = longboat_tls::CertificateAuthority::new("ca").unwrap().pem();
    let says = |section: &str, rule: &Value, pem: &str| {
        let ca = json!({"kind": "ConfigMap", "metadata": {"name": "ca"}, "data": {"ca.crt": pem}});
        let policy = json!({"kind": "BackendTLSPolicy", "metadata": {"name": "policy"}, "spec": {
            "targetRefs": [{"group": "", "kind": "Service", "name": "svc", "sectionName": section}],
            "validation": {"hostname": "a.example", "caCertificateRefs": [{"group": "", "kind": "ConfigMap", "name": "ca"}]},
        }});
        let [svc, _] = service("svc", ([127, 0, 0, 1], 1).into(), None);
        let gateway = gateway(&json!([{"name": "http", "port": 80, "protocol": "HTTP"}]));
        let observed = observed([gateway, route("r", rule), svc, policy, ca]);
        let ports = Ports::only([127, 0, 0, 1].into(), 80, &observed.gateways);
        let ancestors = statuses(&observed, &ports).policies.remove(0).status.unwrap().ancestors;
        summary(&ancestors[0].conditions)
    };
    let svc = json!({"name": "svc", "port": 80});
    let copy = json!({"type": "RequestMirror", "requestMirror": {"backendRef": svc}});
    for rule in [json!({"backendRefs": [svc]}), json!({"filters": [copy]})] {
        assert_eq!(says("p", &rule, &pem), ["Accepted=True Accepted", "ResolvedRefs=True ResolvedRefs"]);
        assert_eq!(says("q", &rule, &pem)[0], "Accepted=False TargetNotFound");
    }
    // Nobody could check a signature of this CA.
    let says = says("p", &json!({"backendRefs": [svc]}), include_str!("../../../tls/src/testdata/p521.pem"));
    assert_eq!(says, ["Accepted=False NoValidCACertificate", "ResolvedRefs=False InvalidCACertificateRef"]);
}

#[test]
fn a_pool_of_another_namespace_hears_of_the_gateway_only_if_it_permits_the_route() {
    let pool = |namespace: &str| {
        json!({"kind": "InferencePool", "metadata": {"name": "pool", "namespace": namespace}, "spec": {
            "selector": {"matchLabels": {"app": "x"}}, "targetPorts": [{"number": 8000}],
            "endpointPickerRef": {"name": "epp"},
        }})
    };
    let group = "inference.networking.k8s.io";
    let theirs = json!({"group": group, "kind": "InferencePool", "name": "pool", "namespace": "other"});
    let grant = json!({"kind": "ReferenceGrant", "metadata": {"name": "grant", "namespace": "other"}, "spec": {
        "from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "ns"}],
        "to": [{"group": group, "kind": "InferencePool"}],
    }});
    let gateway = gateway(&json!([{"name": "http", "port": 80, "protocol": "HTTP"}]));
    let objects = vec![gateway, route("r", &json!({"backendRefs": [theirs]})), pool("ns"), pool("other")];
    for (grants, expected) in [(vec![], vec![]), (vec![grant], vec!["other"])] {
        let observed = observed([objects.clone(), grants].concat());
        let ports = Ports::only([127, 0, 0, 1].into(), 80, &observed.gateways);
        let pools = statuses(&observed, &ports).pools;
        let found: Vec<_> = pools.iter().filter_map(|pool| pool.metadata.namespace.as_deref()).collect();
        assert_eq!(found, expected);
    }
}
