//! Migrates stored objects to the storage version of their CRD, so that a later CRD can drop the old version. The leader
//! does this once. A CRD whose `status.storedVersions` names no other version costs one read.
//!
//! An empty patch rewrites an object: the API server stores it in the storage version, and writes nothing if the object is
//! already stored in that version.

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use http::Request;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, Resource,
    api::{ListParams, Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta},
};
use longboat_admission::Subject;
use longboat_api::v1alpha2::GROUP;
use longboat_watch::{has_code, text_of};
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use crate::{args::Migration, context::Context};

/// Objects per page of a list. Only their metadata is read.
const PAGE_SIZE: u32 = 500;
/// Wait after the first failure. Each further failure makes it half as long again.
const FIRST_WAIT: Duration = Duration::from_secs(2);
/// Failures after which the wait stops growing.
const MAX_BACKOFF_STEPS: u32 = 10;
/// A wait is longer by up to this part of itself, so that several controllers do not retry at the same moment.
const JITTER: f64 = 0.1;
/// The most failed objects that a report names.
const MAX_NAMED: usize = 5;

/// The fields of a CRD that the migration needs. The schemas are megabytes and are skipped.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Definition {
    metadata: Identity,
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Identity {
    resource_version: String,
}

#[derive(Debug, Deserialize)]
struct Spec {
    names: Names,
    versions: Vec<Version>,
}

#[derive(Debug, Deserialize)]
struct Names {
    kind: String,
}

#[derive(Debug, Deserialize)]
struct Version {
    name: String,
    storage: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default)]
    stored_versions: Vec<String>,
}

/// Why some objects of a kind are not migrated.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("cannot {verb} {what}: {}", text_of(source))]
    Request { verb: &'static str, what: String, source: Box<kube::Error> },
    #[error("cannot write {count} objects: {shown}")]
    Objects { count: usize, shown: String },
}

/// The wait after this many failures in a row. `chance` is a random number in 0..1.
fn wait(settings: &Migration, failures: u32, chance: f64) -> Duration {
    let (_, interval) = settings.limits();
    if failures > MAX_BACKOFF_STEPS {
        return interval;
    }
    let steps = i32::try_from(failures.saturating_sub(1)).unwrap_or_default();
    FIRST_WAIT.mul_f64(1.5f64.powi(steps) * (1.0 + JITTER * chance)).min(interval)
}

/// Migrates all objects that are stored in an old version, and returns when none is left.
pub(crate) async fn run(context: Arc<Context>) {
    let settings = &context.args.migration;
    if !settings.enabled {
        return;
    }
    if !context.args.namespaces.is_empty() {
        tracing::debug!(
            "This controller watches only some namespaces, so it does not migrate stored objects."
        );
        return;
    }
    // The kinds are migrated concurrently: one object that cannot be written must not delay the other kind.
    let kinds = [Subject::Service, Subject::Config];
    join_all(kinds.map(|subject| until_done(&context.client, settings, subject.resource()))).await;
}

async fn until_done(client: &Client, settings: &Migration, resource: &str) {
    let (timeout, _) = settings.limits();
    let began = Instant::now();
    let mut failures = 0;
    while let Err(failure) = migrate(client, resource).await {
        failures += 1;
        let late = began.elapsed() >= timeout;
        let hint = failure.hint();
        if late {
            tracing::error!(
                resource, %failure, hint,
                "Cannot migrate the stored objects, so old API versions cannot be removed."
            );
        } else {
            tracing::warn!(resource, %failure, hint, "Cannot migrate the stored objects yet; will retry.");
        }
        let wait = if late { timeout } else { wait(settings, failures, rand::random()) };
        tokio::time::sleep(wait).await;
    }
}

/// Migrates the objects of one kind, if its CRD says that there may be some to migrate.
async fn migrate(client: &Client, resource: &str) -> Result<(), Failure> {
    let name = format!("{resource}.{GROUP}");
    let definition = match read(client, &name).await {
        Ok(definition) => definition,
        // No CRD, so nothing is stored. A CRD that is installed later starts with its storage version.
        Err(error) if has_code(&error, 404) => return Ok(()),
        Err(error) => return Err(Failure::request("read CRD", &name, error)),
    };
    let Some(storage) = definition.spec.versions.iter().find(|version| version.storage) else {
        return Ok(());
    };
    let storage = storage.name.as_str();
    let stored = &definition.status.stored_versions;
    if stored.iter().all(|version| version == storage) {
        return Ok(());
    }
    tracing::info!(resource, from = ?stored, to = storage, "Migrating stored objects.");
    let kind = GroupVersionKind::gvk(GROUP, storage, &definition.spec.names.kind);
    let kind = ApiResource::from_gvk_with_plural(&kind, resource);
    let count = rewrite_all(client, &kind).await?;

    // The resourceVersion makes this fail if the CRD has changed: its storage version may be another one now.
    let trimmed = json!({
        "metadata": {"resourceVersion": definition.metadata.resource_version},
        "status": {"storedVersions": [storage]},
    });
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    let api = Api::<PartialObjectMeta<CustomResourceDefinition>>::all(definitions.into_client());
    api.patch_status(&name, &PatchParams::default(), &Patch::Merge(trimmed))
        .await
        .map_err(|error| Failure::request("write the status of CRD", &name, error))?;
    tracing::info!(
        resource,
        objects = count,
        version = storage,
        "All objects are stored in the storage version."
    );
    Ok(())
}

async fn read(client: &Client, name: &str) -> Result<Definition, kube::Error> {
    let path = format!("{}/{name}", CustomResourceDefinition::url_path(&(), None));
    let request = Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
    client.request(request).await
}

/// Rewrites every object of a kind and returns how many there were.
async fn rewrite_all(client: &Client, kind: &ApiResource) -> Result<usize, Failure> {
    let all: Api<DynamicObject> = Api::all_with(client.clone(), kind);
    let (mut count, mut broken, mut shown) = (0, 0, Vec::new());
    let mut page = ListParams::default().limit(PAGE_SIZE);
    loop {
        let list =
            all.list_metadata(&page).await.map_err(|error| Failure::request("list", &kind.plural, error))?;
        for object in &list.items {
            let (namespace, name) = (object.metadata.namespace.as_deref(), object.metadata.name.as_deref());
            let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, kind);
            let nothing = Patch::Merge(json!({}));
            match api.patch_metadata(name, &PatchParams::default(), &nothing).await {
                Ok(_) => count += 1,
                Err(error) if has_code(&error, 404) => {}
                // An object that is no longer valid must not keep the others from being migrated.
                Err(error) if has_code(&error, 400) || has_code(&error, 403) || has_code(&error, 422) => {
                    broken += 1;
                    if shown.len() < MAX_NAMED {
                        shown.push(format!("{namespace}/{name}: {}", text_of(&error)));
                    }
                }
                Err(error) => {
                    return Err(Failure::request("rewrite", &format!("{namespace}/{name}"), error));
                }
            }
        }
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            // A token that has expired (410) fails this attempt. The next one costs no write for objects that are rewritten
            // already.
            Some(token) => page.continue_token = Some(token),
            None if broken > 0 => return Err(Failure::Objects { count: broken, shown: shown.join("; ") }),
            None => return Ok(count),
        }
    }
}

// === impl Failure ===

impl Failure {
    fn request(verb: &'static str, what: &str, source: kube::Error) -> Self {
        Self::Request { verb, what: what.to_owned(), source: Box::new(source) }
    }

    /// What the operator can do about it.
    fn hint(&self) -> &'static str {
        match self {
            Self::Request { source, .. } if has_code(source, 401) || has_code(source, 403) => {
                "give the controller the RBAC rules of deploy/rbac, or start it with \
                 --storage-migration=false"
            }
            Self::Request { .. } => "nothing to do if a later attempt succeeds",
            Self::Objects { .. } => {
                "correct these objects as the messages say, or delete them; until then, all other changes \
                 of them fail too"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_interval() {
        let settings = Migration::default();
        let waits: Vec<Duration> = (1..13).map(|failures| wait(&settings, failures, 0.0)).collect();
        assert_eq!(waits[..4], [2000, 3000, 4500, 6750].map(Duration::from_millis));
        assert!(waits.is_sorted(), "{waits:?}");
        assert_eq!(waits.last(), Some(&Duration::from_secs(30)));
        assert_eq!(wait(&settings, 1, 1.0), Duration::from_millis(2200));
        let zero = Migration { timeout: Duration::ZERO, interval: Duration::ZERO, ..Migration::default() };
        assert_eq!(zero.limits(), settings.limits());
    }
}
