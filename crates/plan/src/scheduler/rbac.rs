//! The rights of the picker.

use k8s_openapi::{
    api::rbac::v1::{ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use longboat_api::{
    groups,
    labels::{are_of, component},
    names::TOKEN_REVIEWER,
};
use longboat_key::{Name, Namespace};

use crate::{context::Context, labels, names};

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
/// The verbs of those who only read.
pub(crate) const READ: [&str; 3] = ["get", "list", "watch"];

/// Allows to read the objects by which the picker routes, and to use leases for leader election.
pub(super) fn role(context: &Context) -> Role {
    Role {
        metadata: metadata(context, names::scheduler_role(context.name)),
        rules: Some(vec![
            rule(&[""], &["pods"], &READ),
            rule(
                &[groups::POOL, groups::OLD_POOL],
                &["inferencepools", "inferenceobjectives", "inferencemodels"],
                &READ,
            ),
            rule(&[groups::OLD_POOL], &["inferencemodelrewrites", "inferencepoolimports"], &READ),
            rule(&[groups::PICKER[1]], &["inferenceobjectives", "inferencemodelrewrites"], &READ),
            rule(&["discovery.k8s.io"], &["endpointslices"], &READ),
            rule(
                &["coordination.k8s.io"],
                &["leases"],
                &["get", "list", "watch", "create", "update", "patch", "delete"],
            ),
        ]),
    }
}

/// Binds the role to the account.
pub(super) fn role_binding(context: &Context, account: &str) -> RoleBinding {
    RoleBinding {
        metadata: metadata(context, names::scheduler_role_binding(context.name)),
        role_ref: role_ref("Role", &names::scheduler_role(context.name)),
        subjects: Some(vec![subject(context, account)]),
    }
}

/// Lets the picker check the tokens of clients that scrape its metrics. Cluster-scoped, so without an owner: the finalizer
/// removes it.
pub(super) fn auth_binding(context: &Context, account: &str) -> ClusterRoleBinding {
    ClusterRoleBinding {
        metadata: ObjectMeta {
            name: Some(auth_binding_name(context)),
            labels: Some(labels::of(component::SCHEDULER, context.name)),
            ..ObjectMeta::default()
        },
        role_ref: role_ref("ClusterRole", TOKEN_REVIEWER),
        subjects: Some(vec![subject(context, account)]),
    }
}

/// The name of the ClusterRoleBinding. It has no owner, so labels tell whose it is: if another service or somebody else has the
/// usual name, this service takes another one. It keeps that as long as the usual name seems free, because the caches have only
/// objects with our label.
fn auth_binding_name(context: &Context) -> String {
    let usual = names::scheduler_auth_binding(context.namespace, context.name);
    let distinct = names::distinct_scheduler_auth_binding(context.namespace, context.name);
    let bindings = &context.snapshot.cluster_role_bindings;
    let is_own = match bindings.get(Namespace(""), Name(&usual)) {
        Some(live) => are_of(&live.metadata, context.name),
        // The labels of the binding name the service, so its changes need no recorded lookup.
        None => (**bindings).get(Namespace(""), Name(&distinct)).is_none(),
    };
    if is_own { usual } else { distinct }
}

fn metadata(context: &Context, name: String) -> ObjectMeta {
    context.child_metadata(name, labels::of(component::SCHEDULER, context.name))
}

pub(crate) fn rule(groups: &[&str], resources: &[&str], verbs: &[&str]) -> PolicyRule {
    let owned = |list: &[&str]| list.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        api_groups: Some(owned(groups)),
        resources: Some(owned(resources)),
        verbs: owned(verbs),
        ..PolicyRule::default()
    }
}

pub(crate) fn role_ref(kind: &str, name: &str) -> RoleRef {
    RoleRef { api_group: RBAC_GROUP.into(), kind: kind.into(), name: name.into() }
}

pub(crate) fn subject(context: &Context, account: &str) -> Subject {
    Subject {
        // Service accounts are of the core group, whose name is empty.
        api_group: None,
        kind: "ServiceAccount".into(),
        name: account.into(),
        namespace: Some(context.namespace.into()),
    }
}
