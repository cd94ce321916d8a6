//! The service account of the model server's pods. It holds credentials, and the rights of a routing sidecar.

use k8s_openapi::{
    api::{
        core::v1::{PodSpec, ServiceAccount},
        rbac::v1::{Role, RoleBinding},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use longboat_api::groups;
use longboat_key::Name;

use crate::{context::Context, draft::Draft, env, labels::Map, names, scheduler::rbac};

/// The container that chooses a prefill server for each request.
pub(super) const ROUTING_SIDECAR: &str = "llm-d-routing-sidecar";

/// Whether the pod has a routing sidecar, which sends requests to prefill servers.
pub(super) fn has_routing_sidecar(pod: &PodSpec) -> bool {
    pod.init_containers.iter().flatten().any(|container| container.name == ROUTING_SIDECAR)
}

/// Tells the routing sidecar into which pool it may route, if the service has a pool.
pub(super) fn name_pool(context: &Context, pod: &mut PodSpec) {
    if context.spec.router.is_none() {
        return;
    }
    let external = context.spec.scheduler().and_then(|scheduler| scheduler.external_pool());
    let pool = external.map_or_else(|| names::pool(context.name), str::to_owned);
    let sidecars =
        pod.init_containers.iter_mut().flatten().filter(|container| container.name == ROUTING_SIDECAR);
    for sidecar in sidecars {
        sidecar.env.get_or_insert_default().push(env::literal("INFERENCE_POOL_NAME", &pool));
    }
}

/// Returns the account that the pod names, which must exist. Without a name, returns the account `default`, or `None` if that
/// does not exist.
pub(super) fn of_pod(context: &Context, pod: &PodSpec) -> Result<Option<ServiceAccount>, String> {
    match pod.service_account_name.as_deref().filter(|name| !name.is_empty()) {
        None => Ok(context.snapshot.service_accounts.get(context.namespace, Name("default")).cloned()),
        Some(name) => existing(context, name).map(Some),
    }
}

/// Returns the account that a pod names, unless that is the `managed` one. Otherwise adds the managed account to the plan,
/// with these labels and the secrets of the account `default`, and returns it.
pub(super) fn managed_or_named(
    context: &Context,
    draft: &mut Draft,
    named: Option<&str>,
    managed: String,
    labels: Map,
) -> Result<ServiceAccount, String> {
    if let Some(name) = named.filter(|name| !name.is_empty() && *name != managed) {
        return existing(context, name);
    }
    let default = context.snapshot.service_accounts.get(context.namespace, Name("default"));
    add_managed(context, draft, context.child_metadata(managed, labels), default)
}

/// Adds a managed account to the plan, with the secrets of the account `source`, and returns it.
pub(crate) fn add_managed(
    context: &Context,
    draft: &mut Draft,
    metadata: ObjectMeta,
    source: Option<&ServiceAccount>,
) -> Result<ServiceAccount, String> {
    let account = ServiceAccount {
        metadata,
        secrets: source.and_then(|account| account.secrets.clone()),
        image_pull_secrets: source.and_then(|account| account.image_pull_secrets.clone()),
        ..ServiceAccount::default()
    };
    draft.add(context, account.clone())?;
    Ok(account)
}

fn existing(context: &Context, name: &str) -> Result<ServiceAccount, String> {
    context.snapshot.service_accounts.get(context.namespace, Name(name)).cloned().ok_or_else(|| {
        format!(
            "failed to fetch existing service account {}/{name}: ServiceAccount \"{name}\" not found",
            context.namespace
        )
    })
}

/// Gives an account the right to read the objects by which the routing sidecar routes.
pub(super) fn allow_sidecar_reads(
    context: &Context,
    draft: &mut Draft,
    account: &str,
    [role, binding]: [String; 2],
    labels: &Map,
) -> Result<(), String> {
    let metadata = context.child_metadata(role.clone(), labels.clone());
    let rules = vec![
        rbac::rule(&[""], &["pods"], &rbac::READ),
        rbac::rule(&[groups::OLD_POOL, groups::POOL], &["inferencepools"], &rbac::READ),
    ];
    let binding = RoleBinding {
        metadata: context.child_metadata(binding, labels.clone()),
        role_ref: rbac::role_ref("Role", &role),
        subjects: Some(vec![rbac::subject(context, account)]),
    };
    draft.add(context, Role { metadata, rules: Some(rules) })?;
    draft.add(context, binding)
}
