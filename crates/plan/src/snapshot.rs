//! What was observed: the plain data that planning reads instead of a cluster.

use std::sync::Arc;

use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        autoscaling::v2::HorizontalPodAutoscaler,
        core::v1::{ConfigMap, Pod, Secret, Service, ServiceAccount},
        rbac::v1::{ClusterRoleBinding, Role, RoleBinding},
        resource::v1::ResourceClaimTemplate,
    },
    jiff::Timestamp,
};
use longboat_api::foreign::{
    gateway::Gateway, gatewayclass::GatewayClass, httproute::HTTPRoute, inferencepool::InferencePool,
    inferencepool_x, leaderworkerset::LeaderWorkerSet, scaledobject::ScaledObject,
};
use longboat_compose::platform::Platform;

use crate::{objects::Objects, peer::Peers};

/// Everything that planning one service looks at beside the service itself and its composed spec.
///
/// Objects are shared with the caches they come from. "Namespace" below is that of the service. More objects than
/// asked for do no harm.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// When the snapshot was taken: certificates expire by it.
    pub now: Timestamp,
    /// Which optional APIs the cluster serves, and its version.
    pub capabilities: Capabilities,
    /// The parsed `inferenceservice-config`.
    pub platform: Arc<Platform>,
    /// Where the platform is installed: presets, `inferenceservice-config`, the default Gateway.
    pub system_namespace: String,
    /// The DNS domain of the cluster, `cluster.local` unless set otherwise.
    pub cluster_domain: String,
    /// Our services of the namespace, for those that share their traffic or the name of a model.
    pub peers: Peers,
    /// The live children of the service, and objects of the names that its children would get.
    pub deployments: Objects<Deployment>,
    /// Services of the namespace, and those in the namespaces of the Gateways, which may be backing them. Only such as a service
    /// controls, and that have no label of a Gateway, may be kept as text.
    pub services: Objects<Service>,
    /// Service accounts of the namespace, `default` among them.
    pub service_accounts: Objects<ServiceAccount>,
    /// The TLS secret of the service, and the secrets that hold its storage credentials.
    pub secrets: Objects<Secret>,
    /// The CA bundle of the platform in the system namespace, and its copy in the namespace.
    pub config_maps: Objects<ConfigMap>,
    /// Pods of the service, for the addresses in its certificate.
    pub pods: Objects<Pod>,
    /// Roles of the namespace that belong to the service.
    pub roles: Objects<Role>,
    /// Role bindings of the namespace that belong to the service.
    pub role_bindings: Objects<RoleBinding>,
    /// The cluster role binding of the service's scheduler.
    pub cluster_role_bindings: Objects<ClusterRoleBinding>,
    /// Templates of device claims of the namespace.
    pub resource_claim_templates: Objects<ResourceClaimTemplate>,
    /// LeaderWorkerSets of the namespace.
    pub leader_worker_sets: Objects<LeaderWorkerSet>,
    /// Autoscalers of the namespace that belong to services.
    pub horizontal_pod_autoscalers: Objects<HorizontalPodAutoscaler>,
    /// ScaledObjects of the namespace.
    pub scaled_objects: Objects<ScaledObject>,
    /// HTTPRoutes of the namespace: the managed one, and those that the service references.
    pub http_routes: Objects<HTTPRoute>,
    /// InferencePools of the namespace.
    pub inference_pools: Objects<InferencePool>,
    /// InferencePools of the older group in the namespace.
    pub inference_pools_x: Objects<inferencepool_x::InferencePool>,
    /// Gateways, of all namespaces.
    pub gateways: Objects<Gateway>,
    /// Gateway classes.
    pub gateway_classes: Objects<GatewayClass>,
}

/// Which optional APIs are served, and whether we are confined to namespaces. What is missing degrades the feature that needs it, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each API is there or not, whatever the others are")]
pub struct Capabilities {
    /// `gateway.networking.k8s.io/v1`: Gateway, GatewayClass, HTTPRoute.
    pub gateway_api: bool,
    /// `inference.networking.k8s.io/v1`.
    pub inference_pool: bool,
    /// `inference.networking.x-k8s.io/v1alpha2`.
    pub inference_pool_x: bool,
    /// `resource.k8s.io/v1`: ResourceClaimTemplate.
    pub resource_claim_template: bool,
    /// `leaderworkerset.x-k8s.io/v1`.
    pub leader_worker_set: bool,
    /// `keda.sh/v1alpha1`: ScaledObject.
    pub scaled_object: bool,
    /// Objects that live in no namespace may be read and written.
    pub cluster_scope: bool,
    /// Major and minor of the API server, where known.
    pub kubernetes: Option<(u32, u32)>,
}

impl Capabilities {
    /// A cluster, of whatever version, that serves every optional API.
    pub const ALL: Self = Self {
        gateway_api: true,
        inference_pool: true,
        inference_pool_x: true,
        resource_claim_template: true,
        leader_worker_set: true,
        scaled_object: true,
        cluster_scope: true,
        kubernetes: None,
    };
}

impl Snapshot {
    /// A snapshot of a cluster that serves every optional API and holds nothing.
    pub fn empty(now: Timestamp, platform: Arc<Platform>, system_namespace: impl Into<String>) -> Self {
        Self {
            now,
            capabilities: Capabilities::ALL,
            platform,
            system_namespace: system_namespace.into(),
            cluster_domain: "cluster.local".into(),
            peers: Peers::default(),
            deployments: Objects::default(),
            services: Objects::default(),
            service_accounts: Objects::default(),
            secrets: Objects::default(),
            config_maps: Objects::default(),
            pods: Objects::default(),
            roles: Objects::default(),
            role_bindings: Objects::default(),
            cluster_role_bindings: Objects::default(),
            resource_claim_templates: Objects::default(),
            leader_worker_sets: Objects::default(),
            horizontal_pod_autoscalers: Objects::default(),
            scaled_objects: Objects::default(),
            http_routes: Objects::default(),
            inference_pools: Objects::default(),
            inference_pools_x: Objects::default(),
            gateways: Objects::default(),
            gateway_classes: Objects::default(),
        }
    }
}
