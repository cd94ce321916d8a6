//! The objects that a service consists of, and whether they have been written.

use std::{fmt, marker::PhantomData};

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Secret, Service, ServiceAccount},
    rbac::v1::{ClusterRoleBinding, Role, RoleBinding},
};
use longboat_api::foreign::{httproute::HTTPRoute, inferencepool::InferencePool, inferencepool_x};

/// Children as they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planned {}

/// Children as the API server holds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {}

/// The children of one service, a field per kind, in the order in which they are written.
///
/// Whoever applies them destructures this without `..`: a kind that is planned and not applied does not compile.
/// [`crate::status()`] takes only `Children<Applied>`, so that conditions come from what the server returned.
#[derive(Clone, Debug, PartialEq)]
pub struct Children<S> {
    /// The copy of the platform's CA bundle. Shared by all services of a namespace, so without an owner.
    pub config_maps: Vec<ConfigMap>,
    /// The TLS secret.
    pub secrets: Vec<Secret>,
    /// The scheduler's account.
    pub service_accounts: Vec<ServiceAccount>,
    /// What the scheduler may read.
    pub roles: Vec<Role>,
    /// Binds the scheduler's role.
    pub role_bindings: Vec<RoleBinding>,
    /// Lets the scheduler check tokens. Cluster-scoped, so without an owner: removed by the finalizer.
    pub cluster_role_bindings: Vec<ClusterRoleBinding>,
    /// The model server and the scheduler.
    pub deployments: Vec<Deployment>,
    /// The workload's Service and the scheduler's.
    pub services: Vec<Service>,
    /// The pool that the scheduler picks from.
    pub inference_pools: Vec<InferencePool>,
    /// The same pool in the older group.
    pub inference_pools_x: Vec<inferencepool_x::InferencePool>,
    /// The managed route.
    pub http_routes: Vec<HTTPRoute>,
    /// Whether these were written.
    pub state: PhantomData<S>,
}

/// The kinds that children can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChildKind {
    /// `v1` ConfigMap.
    ConfigMap,
    /// `v1` Secret.
    Secret,
    /// `v1` ServiceAccount.
    ServiceAccount,
    /// `rbac.authorization.k8s.io/v1` Role.
    Role,
    /// `rbac.authorization.k8s.io/v1` RoleBinding.
    RoleBinding,
    /// `rbac.authorization.k8s.io/v1` ClusterRoleBinding.
    ClusterRoleBinding,
    /// `apps/v1` Deployment.
    Deployment,
    /// `v1` Service.
    Service,
    /// `inference.networking.k8s.io/v1` InferencePool.
    InferencePool,
    /// `inference.networking.x-k8s.io/v1alpha2` InferencePool.
    InferencePoolX,
    /// `gateway.networking.k8s.io/v1` HTTPRoute.
    HTTPRoute,
}

/// One child by kind and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectRef {
    /// What it is.
    pub kind: ChildKind,
    /// Its namespace; empty for cluster-scoped kinds.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

// === impl Children ===

impl<S> Default for Children<S> {
    fn default() -> Self {
        Self {
            config_maps: Vec::new(),
            secrets: Vec::new(),
            service_accounts: Vec::new(),
            roles: Vec::new(),
            role_bindings: Vec::new(),
            cluster_role_bindings: Vec::new(),
            deployments: Vec::new(),
            services: Vec::new(),
            inference_pools: Vec::new(),
            inference_pools_x: Vec::new(),
            http_routes: Vec::new(),
            state: PhantomData,
        }
    }
}

impl<S> Children<S> {
    /// The Deployment of that name, if the service has one.
    pub fn deployment(&self, name: &str) -> Option<&Deployment> {
        self.deployments.iter().find(|object| object.metadata.name.as_deref() == Some(name))
    }
}

// === impl ChildKind ===

impl ChildKind {
    /// The type as events of the reference name it, such as `v1.Deployment`.
    pub const fn go_type(self) -> &'static str {
        match self {
            Self::ConfigMap => "v1.ConfigMap",
            Self::Secret => "v1.Secret",
            Self::ServiceAccount => "v1.ServiceAccount",
            Self::Role => "v1.Role",
            Self::RoleBinding => "v1.RoleBinding",
            Self::ClusterRoleBinding => "v1.ClusterRoleBinding",
            Self::Deployment => "v1.Deployment",
            Self::Service => "v1.Service",
            Self::InferencePool => "v1.InferencePool",
            Self::InferencePoolX => "v1alpha2pool.InferencePool",
            Self::HTTPRoute => "v1.HTTPRoute",
        }
    }
}

// === impl ObjectRef ===

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind.go_type(), self.namespace, self.name)
    }
}
