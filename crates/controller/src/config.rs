//! Configs: reports the services that use them, and blocks their deletion while they are in use.

use jiff::Timestamp;
use longboat_api::{
    conditions::{Conditions, set_transition_times, types},
    names,
    reasons::{condition, event},
    v1alpha2::{LLMInferenceServiceConfig, ServiceReference},
};
use longboat_key::{Key, Uid};

use crate::{
    config_users::{is_preset, users_of},
    context::Context,
    error::ReconcileError,
    events::Subject,
    finalizer, status,
};

/// Keeps the finalizer and the status of one config up to date.
pub(crate) async fn reconcile(context: &Context, key: &Key) -> Result<(), ReconcileError> {
    let Some(config) = context.caches.configs.get(key) else {
        context.configs.forget(key);
        return Ok(());
    };
    let deleting = config.metadata.deletion_timestamp.is_some();
    // Used or not: a service may begin to use it at any time.
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
        context.events.warning_once(&subject, event::DELETION_BLOCKED, message);
    }
    publish(context, key, &config, &users, deleting).await
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
    set_transition_times(&mut status.conditions, &before.conditions, now);
    status.referenced_by = if preset { Vec::new() } else { users.to_vec() };
    status.observed_generation = config.metadata.generation.unwrap_or_default();
    if config.status.as_ref() == Some(&status) {
        return Ok(());
    }
    let uid = Uid::of(&config.metadata);
    status::write::<LLMInferenceServiceConfig>(context, key, uid, &status, |_| {}).await?;
    Ok(())
}
