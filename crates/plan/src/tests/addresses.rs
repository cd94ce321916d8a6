//! The addresses of a service, and the objects of its router.

use longboat_api::v1alpha2::LLMInferenceServiceStatus;
use serde_json::{Value, json};

use super::laws::{plain, settled};

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
