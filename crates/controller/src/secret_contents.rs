//! What is kept of Secrets that are not ours: their metadata, and the contents of those that reconciles have needed.

use std::{collections::HashMap, sync::Arc, time::Duration};

use k8s_openapi::{
    Metadata, NamespaceResourceScope, Resource, api::core::v1::Secret,
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use longboat_key::Key;
use longboat_plan::Kind;
use longboat_store::{Index, Version};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// The time between two sweeps of contents that no service refers to any more. Contents are kept at least this long, because
/// they are read before the index records that the service depends on them.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);

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
    pub(crate) fn get(&self, key: &Key, present: &Version) -> Option<Arc<Secret>> {
        let state = self.state.lock();
        let known = &state.contents.get(key)?.secret;
        (!present.is_newer(&Version::of(&known.metadata))).then(|| Arc::clone(known))
    }

    pub(crate) fn set(&self, key: Key, secret: Arc<Secret>) {
        self.state.lock().contents.insert(key, Content { secret, read: Instant::now() });
    }

    /// Forgets the content of a Secret that has changed.
    pub(crate) fn forget(&self, key: &Key) {
        self.state.lock().contents.remove(key);
    }

    /// Periodically forgets contents that no service depends on any more.
    pub(crate) fn sweep(&self, index: &Index<Kind>) {
        let (mut state, now) = (self.state.lock(), Instant::now());
        if state.contents.is_empty() || state.swept.is_some_and(|swept| now - swept < SWEEP_INTERVAL) {
            return;
        }
        state.swept = Some(now);
        state.contents.retain(|key, content| {
            now - content.read < SWEEP_INTERVAL || index.is_used(&key.clone().of_kind(Kind::Secret))
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use longboat_key::{Name, Namespace};

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
        tokio::time::advance(2 * SWEEP_INTERVAL).await;
        contents.sweep(&index);
        assert!(is_known(), "a service depends on it");
        index.remove(&service);
        tokio::time::advance(2 * SWEEP_INTERVAL).await;
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
