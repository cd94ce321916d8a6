//! What users see through an API server.

use kube::{Api, core::Status};
use longboat_api::v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig};
use serde_json::json;

use super::{Replica, world};
use crate::setup::service;

fn refusal(error: kube::Error) -> Status {
    match error {
        kube::Error::Api(status) => *status,
        other => panic!("not refused by the server: {other}"),
    }
}

#[tokio::test]
async fn a_service_gets_its_defaults_over_https() {
    let world = world().await;
    let _replica = Replica::called(&world).await;
    world.apply(service("llm", json!({}))).await;
    let api: Api<LLMInferenceService> = Api::namespaced(world.client(), "ns");
    assert_eq!(api.get("llm").await.unwrap().spec.model.name.as_deref(), Some("llm"));
}

#[tokio::test]
async fn a_refused_service_names_every_field() {
    let world = world().await;
    let _replica = Replica::called(&world).await;
    let wrong = json!({
        "parallelism": {"pipeline": 2, "data": 2, "dataLocal": 1}, "router": {"scheduler": {"replicas": 0}},
    });
    let status = refusal(world.try_apply(service("llm", wrong)).await.unwrap_err());
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    let prefix = "admission webhook \"llminferenceservice.kserve-webhook-server.v1alpha2.validator\" denied the request: ";
    assert!(status.message.starts_with(prefix), "{}", status.message);
    let fields: Vec<_> = status.details.unwrap().causes.into_iter().map(|cause| cause.field).collect();
    assert_eq!(fields, ["spec.parallelism", "spec.router.scheduler.replicas"]);
}

#[tokio::test]
async fn a_preset_of_the_platform_cannot_be_deleted() {
    let world = world().await;
    let _replica = Replica::called(&world).await;
    crate::setup::install_presets(&world).await;
    let api: Api<LLMInferenceServiceConfig> = Api::namespaced(world.client(), "kserve");
    let name = "kserve-config-llm-template";
    let status = refusal(api.delete(name, &kube::api::DeleteParams::default()).await.unwrap_err());
    assert_eq!(status.code, 403);
    let expected = "well-known config kserve/kserve-config-llm-template cannot be deleted";
    assert!(status.message.ends_with(expected), "{}", status.message);
}

#[tokio::test]
async fn when_nobody_answers_nothing_is_admitted() {
    let world = world().await;
    let replica = Replica::called(&world).await;
    replica.stop().await;
    let status = refusal(world.try_apply(service("llm", json!({}))).await.unwrap_err());
    assert_eq!(status.code, 500);
}
