//! The kinds of children, each tied to its field in [`Children`] and in [`Snapshot`]. A new kind is one line here.

use k8s_openapi::{
    Metadata,
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, Secret, Service, ServiceAccount},
        rbac::v1::{ClusterRoleBinding, Role, RoleBinding},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use longboat_api::foreign::{httproute::HTTPRoute, inferencepool::InferencePool, inferencepool_x};

use crate::{
    children::{ChildKind, Children, ObjectRef},
    compare::Compare,
    context::Context,
    problem::Phase,
    prune,
    snapshot::{Objects, Snapshot},
};

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
    ($($kind:ty => $variant:ident, $field:ident;)*) => {
        $(impl Child for $kind {
            const CHILD_KIND: ChildKind = ChildKind::$variant;

            fn observed(snapshot: &Snapshot) -> &Objects<Self> {
                &snapshot.$field
            }

            fn of<S>(children: &Children<S>) -> &Vec<Self> {
                &children.$field
            }

            fn of_mut<S>(children: &mut Children<S>) -> &mut Vec<Self> {
                &mut children.$field
            }
        })*

        /// Live children that are not planned any more, in the order of the kinds here.
        pub(crate) fn superfluous<S>(context: &Context, planned: &Children<S>, spared: Option<Phase>) -> Vec<ObjectRef> {
            let mut found = Vec::new();
            $(prune::superfluous_of::<$kind, S>(context, planned, spared, &mut found);)*
            found
        }
    };
}

// What sends traffic goes before what it goes to.
children! {
    HTTPRoute => HTTPRoute, http_routes;
    InferencePool => InferencePool, inference_pools;
    inferencepool_x::InferencePool => InferencePoolX, inference_pools_x;
    Deployment => Deployment, deployments;
    Service => Service, services;
    ServiceAccount => ServiceAccount, service_accounts;
    ClusterRoleBinding => ClusterRoleBinding, cluster_role_bindings;
    RoleBinding => RoleBinding, role_bindings;
    Role => Role, roles;
    Secret => Secret, secrets;
    ConfigMap => ConfigMap, config_maps;
}
