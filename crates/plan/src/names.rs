//! The names of children.

use longboat_api::{child_name, names::suffix};
use longboat_key::{Name, Namespace};

use crate::hash::PartsHash;

macro_rules! names {
    ($($(#[$doc:meta])* $visible:vis $name:ident: $suffix:expr;)*) => {
        $($(#[$doc])*
        $visible fn $name(service: Name<&str>) -> String {
            child_name(&service, $suffix)
        })*
    };
}

names! {
    /// The Deployment of the model server.
    pub workload: suffix::MAIN;

    /// The Deployment of the prefill server.
    pub prefill: suffix::PREFILL;

    /// The LeaderWorkerSet of the model server, and its managed account.
    pub workload_group: suffix::MULTI_NODE;

    /// The LeaderWorkerSet of the prefill server, and its managed account.
    pub prefill_group: suffix::MULTI_NODE_PREFILL;

    /// The ConfigMap with the LoRA adapters that are loaded while pods run.
    pub adapters: "-kserve-adapters";

    /// The ResourceClaimTemplate for the devices of pods.
    pub(crate) device_claims: suffix::MANAGED_DRA;

    /// The Deployment of the tokenizer, and its Service.
    pub tokenizer: suffix::TOKENIZER;

    /// The Service in front of the pods that serve.
    pub workload_service: suffix::WORKLOAD_SERVICE;

    /// The secret with the certificate of model server and scheduler.
    pub tls_secret: suffix::CERTIFICATES;

    /// The managed HTTPRoute.
    pub route: suffix::ROUTE;

    /// The Deployment of the endpoint picker.
    pub scheduler: suffix::SCHEDULER;

    /// The managed InferencePool, of either group.
    pub pool: suffix::INFERENCE_POOL;

    /// The Service of the endpoint picker, unless the pool names another.
    pub scheduler_service: suffix::EPP_SERVICE;

    /// The managed service account of the endpoint picker.
    pub(crate) scheduler_account: suffix::EPP_SERVICE_ACCOUNT;

    /// The role of the endpoint picker.
    pub(crate) scheduler_role: "-epp-role";

    /// The RoleBinding of the endpoint picker.
    pub(crate) scheduler_role_binding: "-epp-rb";
}

/// The HorizontalPodAutoscaler of the model server, or of the prefill server.
pub fn autoscaler(service: Name<&str>, prefill: bool) -> String {
    child_name(&service, if prefill { "-kserve-prefill-hpa" } else { "-kserve-hpa" })
}

/// The ScaledObject of the model server, or of the prefill server.
pub fn scaled_object(service: Name<&str>, prefill: bool) -> String {
    child_name(&service, if prefill { "-kserve-prefill-keda" } else { "-kserve-keda" })
}

/// The ClusterRoleBinding that lets the endpoint picker check tokens, unless it belongs to another service: `b-c` of namespace
/// `a` and `c` of `a-b` have the same name here.
pub fn scheduler_auth_binding(namespace: Namespace<&str>, service: Name<&str>) -> String {
    child_name(&namespace, &format!("-{service}-epp-auth-rb"))
}

/// The same ClusterRoleBinding if another service has its usual name. No service has this name as its usual one, because
/// namespaces and services cannot contain a colon.
pub fn distinct_scheduler_auth_binding(namespace: Namespace<&str>, service: Name<&str>) -> String {
    let mut hash = PartsHash::default();
    hash.add(&namespace);
    hash.add(&service);
    format!("{}:{}", scheduler_auth_binding(namespace, service), hash.end())
}
