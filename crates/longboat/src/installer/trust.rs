//! Makes API servers trust the webhooks.
//!
//! A controller with rights to the whole cluster writes its CA itself. A controller with rights in some namespaces only
//! cannot. If cert-manager does not write the CA either, this command does, because its user has the rights.

use anyhow::{Context, anyhow};
use base64::{Engine, prelude::BASE64_STANDARD};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use longboat_api::names::{WEBHOOK_CA, WEBHOOK_CA_BUNDLE};
use longboat_install::{Installation, Values, names::INJECT_CA};
use serde_json::{Value, json};

use super::{Options, apply::Applier, object, wait::Deadline};

/// Whether this command must write the CA.
pub(super) fn is_ours(values: &Values) -> bool {
    !values.cert_manager && !values.watch_namespaces.is_empty()
}

/// Returns the CA that an earlier run wrote, if this command must write the CA.
pub(super) async fn written_ca(client: &Client, options: &Options<'_>) -> anyhow::Result<Option<String>> {
    if !is_ours(options.values) {
        return Ok(None);
    }
    let secrets: Api<Secret> = Api::namespaced(client.clone(), options.namespace);
    let found = secrets.get_opt(WEBHOOK_CA).await;
    let found = found.map_err(|error| object::refused("read", &format!("Secret {WEBHOOK_CA}"), &error))?;
    let bundle = found.and_then(|secret| secret.data?.remove(WEBHOOK_CA_BUNDLE));
    Ok(bundle.map(|bundle| BASE64_STANDARD.encode(bundle.0)))
}

/// The webhook configurations of an installation.
pub(super) fn webhooks(installation: &Installation) -> impl Iterator<Item = &Value> {
    installation.controller.iter().filter(|object| object.get("webhooks").is_some())
}

/// Adds a CA to webhook configurations and definitions.
pub(super) fn insert(objects: &mut [Value], bundle: Option<&str>) {
    let Some(bundle) = bundle else { return };
    for object in objects {
        for webhook in object.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
            webhook["clientConfig"]["caBundle"] = bundle.into();
        }
    }
}

/// Waits for the controller's CA and writes it, except if the objects were already written with it.
pub(super) async fn write_ca(
    client: &Client,
    installation: &Installation,
    options: &Options<'_>,
    written: Option<&str>,
    applier: &mut Applier,
    deadline: Deadline,
) -> anyhow::Result<()> {
    let bundle = loop {
        if let Some(bundle) = written_ca(client, options).await? {
            break bundle;
        }
        let missing = || {
            anyhow!(
                "the controller has not created the CA of its webhooks: Secret {WEBHOOK_CA} is missing; see \
                 the controller's log"
            )
        };
        deadline.sleep_or(missing).await?;
    };
    let mut webhooks: Vec<Value> = webhooks(installation).cloned().collect();
    insert(&mut webhooks, Some(&bundle));
    if written != Some(&bundle) {
        for object in &webhooks {
            applier.write(object, false).await?;
        }
    }
    for definition in &installation.definitions {
        // Not by apply: the next apply of the definition, which has no CA, would remove it.
        let change = json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": bundle}}}}});
        let api = object::api_of(client, definition)?;
        api.patch(object::name(definition), &PatchParams::default(), &Patch::Merge(&change))
            .await
            .map_err(|error| object::refused("write", &object::title(definition), &error))?;
    }
    Ok(())
}

/// Takes the CA over from cert-manager if an earlier installation used cert-manager and this one does not.
pub(super) async fn take_over_from_cert_manager(
    client: &Client,
    installation: &Installation,
    options: &Options<'_>,
) -> anyhow::Result<()> {
    if options.values.cert_manager || !options.force {
        return Ok(());
    }
    for wanted in installation.definitions.iter().chain(webhooks(installation)) {
        let found = object::read_live(client, wanted).await?;
        let annotations = found.and_then(|found| found.metadata.annotations).unwrap_or_default();
        if annotations.contains_key(INJECT_CA) {
            let change = json!({"metadata": {"annotations": {INJECT_CA: null}}});
            let api = object::api_of(client, wanted)?;
            api.patch(object::name(wanted), &PatchParams::default(), &Patch::Merge(&change))
                .await
                .map(|_| ())
                .with_context(|| {
                    format!("cannot remove the annotation of cert-manager from {}", object::title(wanted))
                })?;
        }
    }
    Ok(())
}
