//! Configs: finds the services that use them, and blocks their deletion while they are in use.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use longboat_api::{
    conditions::{Conditions, groom, types},
    names,
    names::preset,
    reasons::{condition, event},
    v1alpha2::{LLMInferenceServiceConfig, LLMInferenceServiceConfigStatus, ServiceReference},
};
use longboat_key::{Key, Name, Namespace, Uid};
use longboat_plan::{Peer, UsedConfigs};
use longboat_watch::has_code;
use serde_json::json;

use crate::{
    announce, context::Context, error::ReconcileError, events::Subject, finalizer, watch::WatchedKind,
};

/// Keeps the finalizer and the status of one config up to date.
pub(crate) async fn reconcile(context: &Context, key: &Key) -> Result<(), ReconcileError> {
    let Some(config) = context.caches.configs.get(key) else {
        context.configs.forget(key);
        return Ok(());
    };
    let deleting = config.metadata.deletion_timestamp.is_some();
    if !finalizer::has(config.as_ref(), names::CONFIG_FINALIZER) {
        if deleting {
            return Ok(());
        }
        finalizer::add(context, config.as_ref(), names::CONFIG_FINALIZER).await?;
    }
    // Nearly every service uses a preset. Unless the preset is being deleted, it only matters whether at least one service
    // uses it.
    let most = if is_preset(context, key) && !deleting { 1 } else { usize::MAX };
    let users = users_of(context, key, most, deleting);
    if deleting && users.is_empty() {
        return finalizer::remove(context, config.as_ref(), names::CONFIG_FINALIZER).await;
    }
    if deleting {
        let subject = Subject {
            key: key.clone(),
            uid: Uid::of(&config.metadata).to_shared(),
            kind: "LLMInferenceServiceConfig",
            source: names::CONFIG_EVENT_SOURCE,
        };
        let message = format!("cannot be deleted yet: {}", referenced_by(users.len()));
        context.events.once(&subject, "Warning", event::DELETION_BLOCKED, message);
    }
    publish(context, key, &config, &users, deleting).await
}

/// Enqueues the configs that a service of that namespace starts or stops to use with a change. If the service was created,
/// `before` is `None`; if it was deleted, `now` is.
pub(crate) fn enqueue_used(
    context: &Context,
    namespace: Namespace<&str>,
    before: Option<&Peer>,
    now: Option<&Peer>,
) {
    let configs = |peer: Option<&Peer>| peer.map(|peer| (peer.configs.clone(), peer.would_use.clone()));
    if configs(before) == configs(now) {
        return;
    }
    // The configs that a service would use matter only if the config is being deleted.
    for config in context.caches.configs.all().filter(|config| config.metadata.deletion_timestamp.is_some()) {
        let key = Key::of(config.as_ref());
        if is_in_reach(context, namespace, &key) {
            context.configs.add(key);
        }
    }
    let used = |peer: Option<&Peer>| peer.map(|peer| used_by(context, namespace, peer)).unwrap_or_default();
    for key in used(before).symmetric_difference(&used(now)) {
        if context.caches.configs.get(key).is_some() {
            context.configs.add(key.clone());
        }
    }
}

/// The configs that a service of that namespace uses.
fn used_by(context: &Context, namespace: Namespace<&str>, peer: &Peer) -> BTreeSet<Key> {
    match &peer.configs {
        UsedConfigs::Applied(all) => {
            all.iter().map(|(namespace, name)| Key::new(namespace.as_deref(), name.as_deref())).collect()
        }
        UsedConfigs::Mentioned(names) => {
            let places = [namespace, context.args.system_namespace.as_deref()];
            names.iter().flat_map(|name| places.map(|namespace| Key::new(namespace, Name(name)))).collect()
        }
    }
}

/// Whether the config is among [`used_by`].
fn uses(context: &Context, namespace: Namespace<&str>, peer: &Peer, config: &Key) -> bool {
    let is_named = |name: &str| *config.name == *name;
    match &peer.configs {
        UsedConfigs::Applied(all) => {
            all.iter().any(|(namespace, name)| is_named(name) && *config.namespace == **namespace)
        }
        UsedConfigs::Mentioned(names) => {
            names.iter().any(|name| is_named(name)) && is_in_reach(context, namespace, config)
        }
    }
}

/// Whether a service that is not composed would use a config: one that it mentions, or a preset. Until composition it is
/// unknown which presets the service needs, so all of them count.
fn would_use(context: &Context, namespace: Namespace<&str>, peer: &Peer, config: &Key) -> bool {
    let Some(names) = &peer.would_use else { return false };
    is_in_reach(context, namespace, config)
        && (names.iter().any(|name| **name == *config.name) || is_well_known(context, &config.name))
}

/// Whether services of a namespace can refer to a config.
fn is_in_reach(context: &Context, namespace: Namespace<&str>, config: &Key) -> bool {
    [namespace, context.args.system_namespace.as_deref()].contains(&config.namespace.as_deref())
}

/// Returns up to `most` services that use a config, sorted by namespace and name. If the config is `deleting`, services that
/// would use it count too. A service counts until it no longer exists.
fn users_of(context: &Context, config: &Key, most: usize, deleting: bool) -> Vec<ServiceReference> {
    let anywhere = config.namespace == context.args.system_namespace;
    let namespace = (!anywhere).then_some(config.namespace.as_deref());
    let is_user = |within: Namespace<&str>, peer: &Peer| {
        uses(context, within, peer, config) || (deleting && would_use(context, within, peer, config))
    };
    let found = context.caches.inference_services.select(namespace, most, is_user);
    let mut users: Vec<ServiceReference> = found
        .iter()
        .map(|Key { namespace, name }| ServiceReference {
            name: name.to_string(),
            namespace: namespace.to_string(),
        })
        .collect();
    users.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    users
}

fn referenced_by(users: usize) -> String {
    format!("referenced by {users} LLMInferenceService(s)")
}

async fn publish(
    context: &Context,
    key: &Key,
    config: &LLMInferenceServiceConfig,
    users: &[ServiceReference],
    deleting: bool,
) -> Result<(), ReconcileError> {
    let before = config.status.clone().unwrap_or_default();
    let mut status = before.clone();
    let now = Timestamp::now();
    let mut conditions = Conditions::new(&[], &mut status.conditions, now);
    // Nearly every service uses the presets. If the message counted the services, every new or deleted service would rewrite
    // each preset.
    let preset = is_preset(context, key);
    let message = if preset { "used as a preset".to_owned() } else { referenced_by(users.len()) };
    match (users.is_empty(), deleting) {
        (false, true) => {
            conditions.mark_true_with_reason(types::CONFIG_IN_USE, condition::DELETION_BLOCKED, &message);
        }
        (false, false) => conditions.mark_true_with_reason(types::CONFIG_IN_USE, condition::IN_USE, &message),
        (true, _) => {
            let message = "not referenced by any LLMInferenceService";
            conditions.mark_false(types::CONFIG_IN_USE, condition::NOT_IN_USE, message);
        }
    }
    conditions.mark_true(types::READY);
    groom(&mut status.conditions, &before.conditions, now);
    status.referenced_by = if preset { Vec::new() } else { users.to_vec() };
    status.observed_generation = config.metadata.generation.unwrap_or_default();
    if config.status.as_ref() == Some(&status) {
        return Ok(());
    }
    write(context, key, &status).await
}

fn is_preset(context: &Context, key: &Key) -> bool {
    key.namespace == context.args.system_namespace && is_well_known(context, &key.name)
}

/// Whether a config of that name is a preset.
fn is_well_known(context: &Context, name: &str) -> bool {
    let suffix = name.strip_prefix(&context.preset_names.prefix);
    suffix.is_some_and(|suffix| preset::shipped().any(|known| known == suffix))
}

async fn write(
    context: &Context,
    key: &Key,
    status: &LLMInferenceServiceConfigStatus,
) -> Result<(), ReconcileError> {
    let patch = json!([{"op": "add", "path": "/status", "value": status}]);
    let patch: json_patch::Patch = serde_json::from_value(patch).map_err(|error| {
        ReconcileError::Unfinished(format!("the status cannot be written as a patch: {error}"))
    })?;
    let api = LLMInferenceServiceConfig::api(&context.client, Some(key.namespace.as_deref()));
    let asked = context.caches.configs.sending();
    match api.patch_status(&key.name, &PatchParams::default(), &Patch::Json::<()>(patch)).await {
        Ok(updated) => {
            announce::reported(context, &updated, asked);
            Ok(())
        }
        Err(error) if has_code(&error, 404) => Ok(()),
        Err(error) => Err(ReconcileError::request(format!("update the status of {key}"), error)),
    }
}
