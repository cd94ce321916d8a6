//! Decodes the kinds that several crates watch from JSON.
//!
//! A generic function is compiled in each crate that calls it, unless a dependency has already compiled it for the same
//! type. In the development profile, decoders of Kubernetes' types are a fifth of the code of the controller, the node and
//! the gateway. So this crate compiles them once for all.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Pod, Secret, Service, ServiceAccount},
};
use serde_json::Error;

use crate::{
    foreign::{
        gateway::Gateway, gatewayclass::GatewayClass, httproute::HTTPRoute, inferencepool::InferencePool,
        leaderworkerset::LeaderWorkerSet,
    },
    v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig},
};

macro_rules! decoders {
    ($($name:ident: $kind:ty;)*) => {
        $(
            #[doc = concat!("A `", stringify!($kind), "`.\n\n# Errors\nWhat is wrong with the text, and where.")]
            pub fn $name(text: &str) -> Result<$kind, Error> {
                serde_json::from_str(text)
            }
        )*
    };
}

decoders! {
    config_map: ConfigMap;
    deployment: Deployment;
    pod: Pod;
    secret: Secret;
    service: Service;
    service_account: ServiceAccount;
    gateway: Gateway;
    gateway_class: GatewayClass;
    http_route: HTTPRoute;
    inference_pool: InferencePool;
    leader_worker_set: LeaderWorkerSet;
    llm_inference_service: LLMInferenceService;
    llm_inference_service_config: LLMInferenceServiceConfig;
}
