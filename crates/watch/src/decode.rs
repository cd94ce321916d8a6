//! Decodes objects of the kinds that programs watch from JSON.
//!
//! The decoders of Kubernetes' types are large. A generic function is compiled in each crate that calls it, so each crate had its
//! own copy of them: 40 % of the code of the gateway. So this crate compiles them once for all.

use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
    autoscaling::v2::HorizontalPodAutoscaler,
    batch::v1::{CronJob, Job},
    coordination::v1::Lease,
    core::v1::{ConfigMap, Namespace, Node, PersistentVolumeClaim, Pod, Secret, Service, ServiceAccount},
    discovery::v1::EndpointSlice,
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
    rbac::v1::{ClusterRoleBinding, Role, RoleBinding},
};
use kube::api::DynamicObject;
use longboat_api::{
    foreign::{
        backendtlspolicy::BackendTLSPolicy, gateway::Gateway, gatewayclass::GatewayClass,
        httproute::HTTPRoute, inferencepool::InferencePool, leaderworkerset::LeaderWorkerSet,
        listenerset::ListenerSet, referencegrant::ReferenceGrant, scaledobject::ScaledObject,
    },
    v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig},
};
use serde_json::Error;

/// An object of a kind that programs watch.
pub trait Decode: Sized {
    /// Decodes an object from JSON text.
    ///
    /// # Errors
    /// What is wrong with the text, and where.
    fn decode(text: &str) -> Result<Self, Error>;
}

macro_rules! decoders {
    ($($kind:ty,)*) => {
        $(
            impl Decode for $kind {
                #[inline(never)]
                fn decode(text: &str) -> Result<Self, Error> {
                    serde_json::from_str(text)
                }
            }
        )*
    };
}

decoders! {
    BackendTLSPolicy,
    ClusterRoleBinding,
    ConfigMap,
    CronJob,
    DaemonSet,
    Deployment,
    DynamicObject,
    EndpointSlice,
    Gateway,
    GatewayClass,
    HTTPRoute,
    HorizontalPodAutoscaler,
    InferencePool,
    Job,
    LLMInferenceService,
    LLMInferenceServiceConfig,
    LeaderWorkerSet,
    Lease,
    ListenerSet,
    Namespace,
    NetworkPolicy,
    Node,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    ReferenceGrant,
    ReplicaSet,
    Role,
    RoleBinding,
    ScaledObject,
    Secret,
    Service,
    ServiceAccount,
    StatefulSet,
}
