//! The kinds of children. A new kind is one row of the table here, and one file under `compare/`.

use k8s_openapi::{Metadata, apimachinery::pkg::apis::meta::v1::ObjectMeta};

use crate::{
    children::{ChildKind, Children, ObjectRef},
    compare::Compare,
    context::Context,
    objects::Objects,
    problem::Phase,
    prune,
    snapshot::Snapshot,
    yaml,
};

/// The types of children, each under a name of its own.
pub mod types {
    pub use k8s_openapi::api::{
        apps::v1::Deployment,
        autoscaling::v2::HorizontalPodAutoscaler,
        core::v1::{ConfigMap, Secret, Service, ServiceAccount},
        rbac::v1::{ClusterRoleBinding, Role, RoleBinding},
        resource::v1::ResourceClaimTemplate,
    };
    pub use longboat_api::foreign::{
        httproute::HTTPRoute, inferencepool::InferencePool, inferencepool_x::InferencePool as InferencePoolX,
        leaderworkerset::LeaderWorkerSet, scaledobject::ScaledObject,
    };
}

/// Hands the table of child kinds to a macro: a row per kind, what others need before them. A row is what its children are
/// for, the field that holds them, the type (of [`types`]), and the type's name in events of the reference.
#[macro_export]
macro_rules! child_kinds {
    ($then:ident) => {
        $then! {
            /// The copy of the platform's CA bundle. Shared by all services of a namespace, so without an owner.
            config_maps: ConfigMap, "v1.ConfigMap";
            /// The TLS secret.
            secrets: Secret, "v1.Secret";
            /// The accounts of the scheduler, and of workloads that need rights.
            service_accounts: ServiceAccount, "v1.ServiceAccount";
            /// What scheduler and routing sidecars may read.
            roles: Role, "v1.Role";
            /// Bind those roles.
            role_bindings: RoleBinding, "v1.RoleBinding";
            /// Lets the scheduler check tokens. Cluster-scoped, so without an owner: removed by the finalizer.
            cluster_role_bindings: ClusterRoleBinding, "v1.ClusterRoleBinding";
            /// What devices each pod of the model server claims.
            resource_claim_templates: ResourceClaimTemplate, "v1.ResourceClaimTemplate";
            /// Model servers whose replicas are groups of pods.
            leader_worker_sets: LeaderWorkerSet, "v1.LeaderWorkerSet";
            /// Model servers, the scheduler, the tokenizer.
            deployments: Deployment, "v1.Deployment";
            /// The workload's Service, the scheduler's, the tokenizer's.
            services: Service, "v1.Service";
            /// What scales workloads by metrics of the cluster.
            horizontal_pod_autoscalers: HorizontalPodAutoscaler, "v2.HorizontalPodAutoscaler";
            /// What scales workloads by KEDA.
            scaled_objects: ScaledObject, "v1alpha1.ScaledObject";
            /// The pool that the scheduler picks from.
            inference_pools: InferencePool, "v1.InferencePool";
            /// The same pool in the older group.
            inference_pools_x: InferencePoolX, "v1alpha2pool.InferencePool";
            /// The managed route.
            http_routes: HTTPRoute, "v1.HTTPRoute";
        }
    };
}

/// A kind that children have.
pub trait Child: Compare + Metadata<Ty = ObjectMeta> + Clone + PartialEq {
    /// Which one.
    const CHILD_KIND: ChildKind;

    /// The live objects of this kind.
    fn observed(snapshot: &Snapshot) -> &Objects<Self>;

    /// The children of this kind.
    fn of<S>(children: &Children<S>) -> &Vec<Self>;

    /// The children of this kind, to add to.
    fn of_mut<S>(children: &mut Children<S>) -> &mut Vec<Self>;

    /// This object as a YAML document (see [`yaml::object`]).
    fn to_yaml(&self) -> String;

    /// This object by kind and name.
    fn reference(&self) -> ObjectRef {
        let metadata = self.metadata();
        ObjectRef {
            kind: Self::CHILD_KIND,
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }
}

macro_rules! children {
    ($($(#[$doc:meta])* $field:ident: $kind:ident, $go_type:literal;)*) => {
        $(impl Child for types::$kind {
            const CHILD_KIND: ChildKind = ChildKind::$kind;

            fn observed(snapshot: &Snapshot) -> &Objects<Self> {
                &snapshot.$field
            }

            fn of<S>(children: &Children<S>) -> &Vec<Self> {
                &children.$field
            }

            fn of_mut<S>(children: &mut Children<S>) -> &mut Vec<Self> {
                &mut children.$field
            }

            fn to_yaml(&self) -> String {
                // Objects have string keys and no enums with content, so this cannot fail.
                yaml::object(self).unwrap_or_default()
            }
        })*

        /// Live children that are not planned any more, in the order in which they go: what sends traffic before what it
        /// goes to, so the reverse of the order of the table.
        pub(crate) fn superfluous<S>(context: &Context, planned: &Children<S>, spared: Option<Phase>) -> Vec<ObjectRef> {
            let mut found = Vec::new();
            $(prune::superfluous_of::<types::$kind, S>(context, planned, spared, &mut found);)*
            found.reverse();
            found
        }
    };
}

child_kinds!(children);
