//! Statuses as an API server stores them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use longboat_api::foreign::{
    backendtlspolicy::BackendTLSPolicy, gateway::Gateway, gatewayclass::GatewayClass,
    inferencepool::InferencePool,
};
use longboat_apiserver::{ApiServer, Options};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    draining::until,
    observed, service, statuses, summary,
    traffic::{gateway, route},
};
use crate::{
    CONTROLLER_NAME, PodTemplate, manage, ports::Ports, references::References, report::report,
    resolved::Resolved, route::RouteParser,
};

const API: &str = "gateway.networking.k8s.io/v1";

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

/// Starts an API server with these definitions, the namespace `ns` and the class `longboat`.
async fn server(definitions: Vec<Value>) -> Client {
    let client = ApiServer::new(Options::default()).unwrap().client("ns");
    create(&client, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})).await;
    for crd in definitions {
        create(&client, crd).await;
    }
    let class = json!({"kind": "GatewayClass", "apiVersion": API, "metadata": {"name": "longboat"},
        "spec": {"controllerName": CONTROLLER_NAME}});
    create(&client, class).await;
    client
}

/// Writes a Gateway with a listener.
async fn create_gateway(client: &Client, infrastructure: Value) {
    let mut gateway = gateway(&json!([{"name": "http", "port": 80, "protocol": "HTTP"}]));
    gateway["apiVersion"] = API.into();
    gateway["metadata"]["namespace"] = "ns".into();
    gateway["spec"]["gatewayClassName"] = "longboat".into();
    gateway["spec"]["infrastructure"] = infrastructure;
    create(client, gateway).await;
}

async fn conditions(gateways: &Api<Gateway>) -> Vec<String> {
    summary(&gateways.get("g").await.unwrap().status.unwrap_or_default().conditions)
}

#[tokio::test]
async fn a_status_that_is_refused_does_not_keep_others_from_being_written() {
    let mut definitions = longboat_api::crd::foreign();
    let class = definitions.iter_mut().find(|crd| crd["spec"]["names"]["kind"] == "GatewayClass").unwrap();
    for version in class["spec"]["versions"].as_array_mut().unwrap() {
        // As in releases of the Gateway API before 1.3.
        version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["supportedFeatures"] =
            json!({"type": "array", "items": {"type": "string"}});
    }
    let client = server(definitions).await;
    create_gateway(&client, Value::Null).await;
    let gateways: Api<Gateway> = Api::namespaced(client.clone(), "ns");
    let classes: Api<GatewayClass> = Api::all(client.clone());
    let mut observed = observed([]);
    observed.gateways = vec![Arc::new(gateways.get("g").await.unwrap())];
    observed.classes = vec![Arc::new(classes.get("longboat").await.unwrap())];
    let ports = Ports::only([127, 0, 0, 1].into(), 80, &observed.gateways);
    let resolved = Resolved::new(&observed, &ports, &mut RouteParser::default());
    let error = report(&client, &observed, &resolved).await.unwrap_err();
    assert!(error.to_string().contains("supportedFeatures"), "{error}");
    assert_eq!(conditions(&gateways).await, ["Accepted=True Accepted", "Programmed=True Programmed"]);
}

#[tokio::test]
async fn a_mistake_in_its_parameters_takes_nothing_away_from_a_gateway() {
    let client = server(longboat_api::crd::foreign()).await;
    let parameters = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "parameters", "namespace": "ns"}, "data": {"replicas": "1"}});
    create(&client, parameters).await;
    let reference = json!({"group": "", "kind": "ConfigMap", "name": "parameters"});
    create_gateway(&client, json!({"parametersRef": reference})).await;
    let template = PodTemplate { image: "r/l:1".into() };
    let managing = tokio::spawn(manage(client.clone(), template, Vec::new()));
    let services: Api<Service> = Api::namespaced(client.clone(), "ns");
    let is_served = async || services.get_opt("g-longboat").await.unwrap().is_some();
    until("the Gateway has a Service", &is_served).await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "ns");
    let mistake = Patch::Merge(json!({"data": {"replicas": "many"}}));
    maps.patch("parameters", &PatchParams::default(), &mistake).await.unwrap();
    let gateways: Api<Gateway> = Api::namespaced(client.clone(), "ns");
    let is_refused =
        async || conditions(&gateways).await.contains(&"Accepted=False InvalidParameters".into());
    // Written after the objects.
    until("the status says so", &is_refused).await;
    assert!(is_served().await);
    managing.abort();
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
fn only_the_policies_of_back_ends_have_their_config_maps_read_and_not_too_many() {
    let policy = |number: usize, count: usize| {
        let name =
            |map: usize| json!({"group": "", "kind": "ConfigMap", "name": format!("ca-{number}-{map}")});
        json!({"kind": "BackendTLSPolicy", "metadata": {"name": format!("p{number}")}, "spec": {
            "targetRefs": [{"group": "", "kind": "Service", "name": format!("s{number}")}],
            "validation": {"hostname": "a.example", "caCertificateRefs": (0..count).map(name).collect::<Vec<_>>()},
        }})
    };
    let led_to = |number: usize| json!({"name": format!("s{number}"), "port": 80});
    let mut foreign = route("foreign", &json!({"backendRefs": [led_to(4)]}));
    foreign["spec"]["parentRefs"][0]["name"] = "elsewhere".into();
    let routes = [route("r", &json!({"backendRefs": [led_to(1), led_to(2), led_to(3)]})), foreign];
    let gateway = gateway(&json!([{"name": "http", "port": 80, "protocol": "HTTP"}]));
    let policies = [(0, 8), (1, 100), (2, 100), (3, 28), (4, 8)].map(|(number, count)| policy(number, count));
    let observed = observed([gateway].into_iter().chain(routes).chain(policies));
    let names = References::new(&observed).config_maps;
    let of =
        |number: usize| names.iter().filter(|map| map.name.starts_with(&format!("ca-{number}-"))).count();
    assert_eq!([0, 1, 2, 3, 4].map(of), [0, 100, 0, 28, 0]);
    let ports = Ports::only([127, 0, 0, 1].into(), 80, &observed.gateways);
    let policies = statuses(&observed, &ports).policies;
    let says = |policy: &BackendTLSPolicy| {
        policy
            .status
            .clone()
            .unwrap()
            .ancestors
            .iter()
            .map(|one| summary(&one.conditions).join(", "))
            .collect()
    };
    let said: Vec<Vec<String>> = policies.iter().map(says).collect();
    let missing = "Accepted=False NoValidCACertificate, ResolvedRefs=False InvalidCACertificateRef";
    let too_many = "Accepted=False Invalid, ResolvedRefs=True ResolvedRefs";
    assert_eq!(said, [[missing], [too_many], [missing]]);
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

#[test]
fn a_status_has_no_more_entries_than_its_definition_allows() {
    let names: Vec<_> = (10..50).map(|number| format!("g{number}")).collect();
    let gateways = names.iter().map(|name| {
        let mut gateway = gateway(&json!([{"name": "http", "port": 80, "protocol": "HTTP"}]));
        gateway["metadata"]["name"] = name.as_str().into();
        gateway
    });
    let in_pool = json!({"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "pool"});
    let mut route = route("r", &json!({"backendRefs": [{"name": "svc", "port": 80}, in_pool]}));
    route["spec"]["parentRefs"] = names.iter().map(|name| json!({"name": name})).collect();
    let pool = json!({"kind": "InferencePool", "metadata": {"name": "pool"}, "spec": {}});
    let [svc, _] = service("svc", ([127, 0, 0, 1], 1).into(), None);
    let other = json!({"controllerName": "other", "ancestorRef": {"name": "x"}, "conditions": []});
    let policy = json!({"kind": "BackendTLSPolicy", "metadata": {"name": "policy"}, "spec": {
        "targetRefs": [{"group": "", "kind": "Service", "name": "svc"}], "validation": {"hostname": "a.example"},
    }, "status": {"ancestors": [other]}});
    let observed = observed(gateways.chain([route, pool, svc, policy]));
    let ports = Ports::only([127, 0, 0, 1].into(), 80, &observed.gateways);
    let mut updates = statuses(&observed, &ports);
    assert_eq!(updates.policies.remove(0).status.unwrap().ancestors.len(), 16);
    assert_eq!(updates.pools.remove(0).status.unwrap().parents.len(), 32);
}
