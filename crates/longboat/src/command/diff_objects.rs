//! Objects of manifests that belong to no service, beside those of a cluster or of other manifests.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{anyhow, bail};
use kube::{
    Api, Client,
    api::PostParams,
    core::{DynamicObject, GroupVersionKind},
    discovery::{Scope, pinned_kind},
};
use longboat_controller::reader;
use longboat_key::Namespace;
use longboat_manifest::Document;
use longboat_offline::{
    Settings,
    diff::{ChildChange, object_change},
    scene::merge_manifest,
};
use serde_json::Value;

use super::cluster;
use crate::cli::EnvironmentArgs;

/// Refuses objects whose namespace is another than that of the command line, as kubectl does.
pub(super) fn have_namespace(documents: &[Document], args: &EnvironmentArgs) -> anyhow::Result<()> {
    let Some(namespace) = &args.namespace else { return Ok(()) };
    let is_other = |document: &&Document| !["", &**namespace].contains(&document.namespace());
    match documents.iter().find(is_other) {
        None => Ok(()),
        Some(document) => bail!(
            "{}: {} is in namespace {}, and `-n` names {namespace}: pass `-n {}`, or leave out the flag",
            document.place("metadata.namespace"),
            title(document),
            document.namespace(),
            document.namespace(),
        ),
    }
}

/// Refuses namespaces that neither the cluster nor the manifests have.
pub(super) async fn namespaces_exist(
    client: &Client,
    documents: &[Document],
    namespaces: &[Namespace],
) -> anyhow::Result<()> {
    let is_in_manifests =
        |name: &&Namespace| documents.iter().any(|one| one.kind() == "Namespace" && one.name() == &***name);
    for namespace in namespaces.iter().filter(|name| !is_in_manifests(name)) {
        cluster::namespace_exists(client, Some(namespace)).await?;
    }
    Ok(())
}

/// Returns the changes of objects between two sets of manifests.
pub(super) fn between(before: &[Document], after: &[Document]) -> Vec<ChildChange> {
    let by_title = |documents: &[Document]| -> BTreeMap<String, Value> {
        let others = documents.iter().filter(|document| !is_composed(document));
        others.map(|document| (title(document), document.object.clone())).collect()
    };
    let (before, after) = (by_title(before), by_title(after));
    let titles: BTreeSet<&String> = after.keys().chain(before.keys()).collect();
    titles
        .into_iter()
        .filter_map(|title| object_change(title.clone(), before.get(title), after.get(title)))
        .collect()
}

/// Returns the changes that applying manifests would make to the objects of a cluster, and why some are unknown.
pub(super) async fn with_cluster(
    client: &Client,
    documents: &[Document],
    settings: &Settings,
) -> (Vec<ChildChange>, Vec<anyhow::Error>) {
    let (mut changes, mut failed) = (Vec::new(), Vec::new());
    for document in documents.iter().filter(|document| document.kind() != "LLMInferenceService") {
        match live_change(client, document, settings).await {
            Ok(change) => changes.extend(change),
            Err(error) => failed.push(error.context(format!("cannot compare {}", title(document)))),
        }
    }
    (changes, failed)
}

async fn live_change(
    client: &Client,
    document: &Document,
    settings: &Settings,
) -> anyhow::Result<Option<ChildChange>> {
    let reason = |error: kube::Error| anyhow!(reader::sentence(&error));
    let version = document.api_version().rsplit('/').next().unwrap_or_default();
    let kind = GroupVersionKind::gvk(document.group(), version, document.kind());
    let (resource, capabilities) = pinned_kind(client, &kind).await.map_err(|_| {
        anyhow!("the cluster does not serve kind {} in {}", document.kind(), document.api_version())
    })?;
    let api: Api<DynamicObject> = match (capabilities.scope, document.namespace()) {
        (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
        (Scope::Namespaced, "") => Api::namespaced_with(client.clone(), &settings.namespace, &resource),
        (Scope::Namespaced, own) => Api::namespaced_with(client.clone(), own, &resource),
    };
    let Some(live) = api.get_opt(document.name()).await.map_err(reason)? else {
        return Ok(object_change(title(document), None, Some(&document.object)));
    };
    let live = serde_json::to_value(live)?;
    let merged = merge_manifest(&live, &document.object);
    let object: DynamicObject = serde_json::from_value(merged.clone())?;
    // Only the API server knows defaults and what its webhooks change.
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let stored = match api.replace(document.name(), &dry_run, &object).await {
        Ok(stored) => serde_json::to_value(stored)?,
        // Who may only read sees at least what the manifest changes.
        Err(kube::Error::Api(status)) if status.message.contains("cannot update resource") => merged,
        Err(error) => return Err(reason(error)),
    };
    Ok(object_change(title(document), Some(&live), Some(&stored)))
}

/// Whether the difference of a service shows what an object changes.
fn is_composed(document: &Document) -> bool {
    ["LLMInferenceService", "LLMInferenceServiceConfig"].contains(&document.kind())
}

fn title(document: &Document) -> String {
    match document.namespace() {
        "" => format!("{} {}", document.kind(), document.name()),
        namespace => format!("{} {namespace}/{}", document.kind(), document.name()),
    }
}
