//! Secrets that are not ours: their metadata, and the contents of those that reconciles have needed.
//!
//! The watch of Secrets is metadata-only, except for Secrets with our label, which hold the certificates that this controller
//! issues. The Secrets with a model's credentials are read by name when a service refers to them, once per version.

use std::{collections::HashMap, sync::Arc, time::Duration};

use k8s_openapi::{
    Metadata, NamespaceResourceScope, Resource, api::core::v1::Secret,
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use longboat_api::{conditions::types, reasons::condition};
use longboat_key::{Key, Namespace};
use longboat_plan::{Kind, Phase, Problem, Snapshot};
use longboat_store::{Index, Version};
use longboat_watch::{has_code, text_of};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::{
    args::Args,
    context::Context,
    error::ReconcileError,
    watch::{Rules, WatchedKind},
};

/// The time between two sweeps of contents that no service refers to any more. Contents are kept at least this long, because
/// they are read before the index records that the service depends on them.
const SWEEP: Duration = Duration::from_mins(1);

/// The metadata that the cache keeps of a Secret that is not ours: name and version. Annotations are dropped, because
/// `kubectl apply` stores the whole content in one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SecretMetadata {
    metadata: ObjectMeta,
}

/// The contents of Secrets that services refer to.
#[derive(Debug, Default)]
pub(crate) struct SecretContents {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    contents: HashMap<Key, Content>,
    swept: Option<Instant>,
}

#[derive(Debug)]
struct Content {
    secret: Arc<Secret>,
    read: Instant,
}

/// Why a service cannot be planned: a Secret that it needs could not be read.
#[derive(Debug)]
pub(crate) enum SecretError {
    /// The controller has no right to read the Secret. A retry would not help.
    Denied(Problem),
    /// The request failed.
    Failed(ReconcileError),
}

impl From<ReconcileError> for SecretError {
    fn from(error: ReconcileError) -> Self {
        Self::Failed(error)
    }
}

/// Adds Secrets to a snapshot. Returns whether any of them exists.
///
/// # Errors
/// If a Secret exists and cannot be read.
pub(crate) async fn add(
    context: &Context,
    missed: &[Key],
    snapshot: &mut Snapshot,
) -> Result<bool, SecretError> {
    let mut found = false;
    for key in missed {
        if let Some(secret) = content_of(context, key).await? {
            snapshot.secrets.insert(secret);
            found = true;
        }
    }
    Ok(found)
}

/// Checks that the controller may use Secrets in a namespace, where every service stores its certificate in a Secret.
///
/// # Errors
/// If it may not.
pub(crate) fn check(context: &Context, namespace: Namespace<&str>) -> Result<(), SecretError> {
    match denial(&context.args, namespace) {
        Some(reason) => Err(SecretError::Denied(problem(reason))),
        None => Ok(()),
    }
}

/// Returns why no service of a namespace can be served if the controller may not use Secrets there.
fn denial(args: &Args, namespace: Namespace<&str>) -> Option<String> {
    let is_open = args.secret_namespaces.is_empty()
        || args.secret_namespaces.iter().any(|one| one.as_deref() == namespace);
    (!is_open).then(|| {
        format!(
            "the controller may not use Secrets in namespace \"{namespace}\", and services keep their certificate in one: add the \
             namespace to `secretNamespaces` of the installation (flag --secret-namespace)"
        )
    })
}

fn problem(message: String) -> Problem {
    Problem {
        phase: Phase::Workload,
        condition: types::MAIN_WORKLOAD_READY,
        reason: condition::RECONCILE_CERTS_ERROR,
        message,
    }
}

/// Returns the Secret of that name, or `None` if it does not exist. Uses the cached content unless the Secret has changed.
async fn content_of(context: &Context, key: &Key) -> Result<Option<Arc<Secret>>, SecretError> {
    let Some(metadata) = context.caches.secret_metadata.metadata(key) else { return Ok(None) };
    if let Some(known) = context.secret_contents.get(key, &Version::of(&metadata)) {
        return Ok(Some(known));
    }
    let api = Secret::api(&context.client, Some(key.namespace.as_deref()));
    let found = api.get_opt(&key.name).await.map_err(|error| {
        if has_code(&error, 403) {
            SecretError::Denied(problem(format!("failed to read Secret {key}: {}", text_of(&error))))
        } else {
            SecretError::Failed(ReconcileError::request(format!("read Secret {key}"), error))
        }
    })?;
    let Some(mut found) = found else { return Ok(None) };
    found.slim();
    found.metadata.managed_fields = None;
    let found = Arc::new(found);
    context.secret_contents.set(key.clone(), Arc::clone(&found));
    Ok(Some(found))
}

// === impl SecretMetadata ===

impl SecretMetadata {
    /// Drops everything except the name and the version.
    pub(crate) fn reduce(&mut self) {
        let all = std::mem::take(&mut self.metadata);
        self.metadata = ObjectMeta {
            namespace: all.namespace,
            name: all.name,
            uid: all.uid,
            resource_version: all.resource_version,
            ..ObjectMeta::default()
        };
    }
}

impl Resource for SecretMetadata {
    type Scope = NamespaceResourceScope;

    const API_VERSION: &'static str = <Secret as Resource>::API_VERSION;
    const GROUP: &'static str = <Secret as Resource>::GROUP;
    const KIND: &'static str = <Secret as Resource>::KIND;
    const URL_PATH_SEGMENT: &'static str = <Secret as Resource>::URL_PATH_SEGMENT;
    const VERSION: &'static str = <Secret as Resource>::VERSION;
}

impl Metadata for SecretMetadata {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

// === impl SecretContents ===

impl SecretContents {
    /// Returns the content of a Secret, unless it is older than `present`.
    fn get(&self, key: &Key, present: &Version) -> Option<Arc<Secret>> {
        let state = self.state.lock();
        let known = &state.contents.get(key)?.secret;
        (!present.is_newer(&Version::of(&known.metadata))).then(|| Arc::clone(known))
    }

    fn set(&self, key: Key, secret: Arc<Secret>) {
        self.state.lock().contents.insert(key, Content { secret, read: Instant::now() });
    }

    /// Forgets the content of a Secret that has changed.
    pub(crate) fn forget(&self, key: &Key) {
        self.state.lock().contents.remove(key);
    }

    /// Periodically forgets contents that no service depends on any more.
    pub(crate) fn sweep(&self, index: &Index<Kind>) {
        let (mut state, now) = (self.state.lock(), Instant::now());
        if state.contents.is_empty() || state.swept.is_some_and(|swept| now - swept < SWEEP) {
            return;
        }
        state.swept = Some(now);
        state.contents.retain(|key, content| {
            now - content.read < SWEEP || index.is_used(&key.clone().of_kind(Kind::Secret))
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use longboat_key::{Key, Name};

    use super::*;

    fn secret(version: &str) -> Arc<Secret> {
        let metadata = ObjectMeta {
            name: Some("a".into()),
            namespace: Some("ns".into()),
            uid: Some("1".into()),
            resource_version: Some(version.into()),
            ..ObjectMeta::default()
        };
        Arc::new(Secret { metadata, ..Secret::default() })
    }

    #[test]
    fn a_content_counts_until_the_secret_is_known_to_have_changed() {
        let (contents, key) = (SecretContents::default(), Key::new(Namespace("ns"), Name("a")));
        let present = |version: &str| Version::of(&secret(version).metadata);
        contents.set(key.clone(), secret("5"));
        assert!(contents.get(&key, &present("4")).is_some(), "the watch is behind the answer");
        assert!(contents.get(&key, &present("5")).is_some());
        assert!(contents.get(&key, &present("6")).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_content_is_forgotten_once_no_service_depends_on_it() {
        let (contents, index) = (SecretContents::default(), Index::default());
        let (key, service) = (Key::new(Namespace("ns"), Name("a")), Key::new(Namespace("ns"), Name("llm")));
        let is_known = || contents.get(&key, &Version::of(&secret("5").metadata)).is_some();
        contents.set(key.clone(), secret("5"));
        contents.sweep(&index);
        assert!(is_known(), "a reconcile that is under way has read it");
        index.set(&service, BTreeSet::from([key.clone().of_kind(Kind::Secret)]), index.now());
        tokio::time::advance(2 * SWEEP).await;
        contents.sweep(&index);
        assert!(is_known(), "a service depends on it");
        index.remove(&service);
        tokio::time::advance(2 * SWEEP).await;
        contents.sweep(&index);
        assert!(!is_known());
    }

    #[test]
    fn of_a_secret_that_is_not_ours_only_name_and_version_are_kept() {
        let mut metadata: SecretMetadata = serde_json::from_value(serde_json::json!({"metadata": {
            "name": "a", "namespace": "ns", "uid": "1", "resourceVersion": "5", "labels": {"a": "b"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{\"data\": {\"token\": \"aHVzaA==\"}}"},
        }}))
        .unwrap();
        metadata.reduce();
        assert_eq!(metadata.metadata, secret("5").metadata);
    }
}
