//! The addresses of a service, and the objects of its router.

use std::sync::Arc;

use longboat_api::{conditions::types::HTTP_ROUTES_READY, v1alpha2::LLMInferenceServiceStatus};
use longboat_key::{Name, Namespace};
use serde_json::{Value, json};

use super::{
    SYSTEM_NAMESPACE, composing,
    laws::{NAMESPACE, plain, presets_as_layers, settled, world},
};
use crate::{Kind, Progress};

fn status(service: Value) -> LLMInferenceServiceStatus {
    let world = settled(service);
    world.services.into_values().next().unwrap().status.unwrap()
}

#[test]
fn the_first_address_is_the_one_of_the_status_and_needs_no_header() {
    let status = status(plain());
    let urls: Vec<_> = status.addresses.iter().map(|found| found.url.clone().unwrap_or_default()).collect();
    assert_eq!(
        urls,
        [
            "http://127.0.0.1:8080/team/llm",
            "http://127.0.0.1:8080/",
            "http://127.0.0.1:8080/publishers/team/models/llm",
        ]
    );
    assert_eq!(status.url.as_deref(), Some(&*urls[0]));
    assert_eq!(status.addresses[0].name.as_deref(), Some("gateway-external"));
}

#[test]
fn a_listener_that_is_not_served_has_no_address() {
    let urls = |programmed: [&str; 2]| {
        let mut world = world(&presets_as_layers(), false);
        let listeners = [("http", 8080, "HTTP"), ("https", 8443, "HTTPS")];
        let statuses = listeners.iter().zip(programmed).map(|((name, ..), programmed)| {
            json!({
                "name": name, "attachedRoutes": 0, "supportedKinds": [],
                "conditions": [{
                    "type": "Programmed", "status": programmed, "reason": "x", "message": "",
                    "lastTransitionTime": "2026-11-20T00:00:00Z",
                }],
            })
        });
        let gateway = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "gw"},
            "spec": {
                "gatewayClassName": "x",
                "listeners": listeners.map(|(name, port, protocol)| json!({"name": name, "port": port, "protocol": protocol})),
            },
            "status": {"addresses": [{"value": "127.0.0.1"}], "listeners": statuses.collect::<Vec<_>>()},
        });
        world.put(gateway, &SYSTEM_NAMESPACE);
        world.put(plain(), NAMESPACE);
        world.settle();
        let addresses = world.services.into_values().next().unwrap().status.unwrap().addresses;
        let urls = addresses.into_iter().filter_map(|found| found.url);
        urls.filter(|url| url.ends_with("/team/llm")).collect::<Vec<_>>()
    };
    let (http, https) = ("http://127.0.0.1:8080/team/llm", "https://127.0.0.1:8443/team/llm");
    assert_eq!(urls(["True", "False"]), [http]);
    assert_eq!(urls(["False", "True"]), [https]);
    assert_eq!(urls(["False", "False"]).len(), 2, "before any listener is served, all are expected to be");
}

#[test]
fn a_scheduler_without_a_route_is_in_the_status() {
    let mut service = plain();
    service["spec"]["router"] = json!({"scheduler": {}});
    let router = status(service).router.unwrap();
    assert!(router.gateways.is_empty() && router.group.is_none());
    let scheduler = router.scheduler.unwrap();
    assert_eq!(scheduler.inference_pool.unwrap().name, "llm-inference-pool");
    assert_eq!(scheduler.service.unwrap().name, "llm-epp-service");
    let mut service = plain();
    service["spec"]["router"] = json!({});
    assert_eq!(status(service).router, None);
}

#[test]
fn a_route_of_a_service_mesh_needs_no_gateway() {
    let parent = json!({"group": "", "kind": "Service", "name": "llm", "port": 80});
    let status = |parents: Value| {
        let mut world = world(&presets_as_layers(), false);
        let route = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "own"},
            "spec": {"parentRefs": [parent]}, "status": {"parents": parents},
        });
        let mut service = plain();
        service["spec"]["router"] = json!({"route": {"http": {"refs": [{"name": "own"}]}}});
        world.put(route, NAMESPACE);
        world.put(service, NAMESPACE);
        world.settle();
        let status = world.services.into_values().next().unwrap().status.unwrap();
        let ready = status.conditions.iter().find(|found| found.type_ == HTTP_ROUTES_READY).unwrap();
        (ready.is_true(), ready.message.clone(), status)
    };
    let (is_ready, message, _) = status(json!([]));
    assert!(!is_ready && message.contains("waiting for Service team/llm to accept it"), "{message}");
    let conditions = ["Accepted", "ResolvedRefs"].map(|type_| {
        json!({
            "type": type_, "status": "True", "reason": "x", "message": "", "lastTransitionTime": "2026-11-20T00:00:00Z",
        })
    });
    let accepted = json!([{"parentRef": parent, "controllerName": "mesh", "conditions": conditions}]);
    let (is_ready, message, status) = status(accepted);
    assert!(is_ready, "{message}");
    assert!(status.addresses.is_empty() && status.router.unwrap().gateways.is_empty());
}

#[test]
fn a_referenced_route_that_is_deleted_during_the_writes_is_missing_and_the_addresses_stay() {
    let mut world = world(&presets_as_layers(), false);
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": "own"},
        "spec": {"parentRefs": [{"name": "gw", "namespace": &*SYSTEM_NAMESPACE}]},
    });
    let mut service = plain();
    service["spec"]["router"] = json!({"route": {"http": {"refs": [{"name": "own"}]}}});
    world.put(route, NAMESPACE);
    world.put(service, NAMESPACE);
    world.settle();
    let service = world.services.values().next().unwrap().clone();
    let applied = world.live_children();
    let composed = composing::compose(&world, &service);
    world.delete("HTTPRoute", Namespace(NAMESPACE), Name("own"));
    let progress = Progress {
        presets: &composed.outcome,
        pins: &composing::pins(&service),
        spec: composed.spec.as_ref(),
        // The plan was made while the route existed.
        problem: None,
        proof: None,
        download: None,
        adapters: &[],
    };
    let status = crate::status(&service, progress, &applied, &world.snapshot, world.snapshot.now).unwrap();
    let before = service.status.unwrap();
    assert!(before.url.is_some());
    assert_eq!((status.url, status.addresses), (before.url, before.addresses));
    let condition = status.conditions.iter().find(|found| found.type_ == HTTP_ROUTES_READY).unwrap();
    assert!(condition.is_false());
    assert_eq!(condition.reason, "RefsInvalid");
}

#[test]
fn routes_that_are_not_served_any_more_have_no_address_and_those_that_cannot_be_seen_keep_theirs() {
    let without_routes = |is_unlisted: bool| {
        let mut world = settled(plain());
        world.snapshot.capabilities.gateway_api = false;
        world.snapshot.http_routes = crate::ObservedObjects::default();
        world.snapshot.unlisted =
            Arc::new(is_unlisted.then_some((Kind::HTTPRoute, None)).into_iter().collect());
        world.settle();
        let status = world.services.into_values().next().unwrap().status.unwrap();
        let condition = status.conditions.iter().find(|found| found.type_ == HTTP_ROUTES_READY).unwrap();
        assert_eq!(condition.reason, "HTTPRouteReconcileError");
        let routes: usize = status
            .router
            .iter()
            .flat_map(|router| &router.gateways)
            .map(|found| found.http_routes.len())
            .sum();
        (
            status.url.is_some(),
            status.addresses.len(),
            routes,
            condition.message.contains("no right to list HTTPRoute"),
        )
    };
    assert_eq!(without_routes(false), (false, 0, 0, false));
    assert_eq!(without_routes(true), (true, 3, 1, true));
}
