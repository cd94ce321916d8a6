//! The addresses of a service, and the objects of its router.

use longboat_api::v1alpha2::LLMInferenceServiceStatus;
use serde_json::{Value, json};

use super::{
    SYSTEM_NAMESPACE,
    laws::{NAMESPACE, plain, presets_as_layers, settled, world},
};

fn status(service: Value) -> LLMInferenceServiceStatus {
    let world = settled(service);
    world.services.into_values().next().unwrap().status.unwrap()
}

#[test]
fn the_first_address_is_the_one_of_the_status_and_needs_no_header() {
    let status = status(plain());
    let urls: Vec<_> =
        status.addresses.iter().map(|found| found.address.url.clone().unwrap_or_default()).collect();
    assert_eq!(
        urls,
        [
            "http://127.0.0.1:8080/team/llm",
            "http://127.0.0.1:8080/",
            "http://127.0.0.1:8080/publishers/team/models/llm",
        ]
    );
    assert_eq!(status.url.as_deref(), Some(&*urls[0]));
    assert_eq!(status.addresses[0].address.name.as_deref(), Some("gateway-external"));
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
        let urls = addresses.into_iter().filter_map(|found| found.address.url);
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
