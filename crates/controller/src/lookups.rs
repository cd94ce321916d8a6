//! Records the lookups of one reconcile for the index.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use longboat_compose::{ConfigMapSource, ConfigSource, Layer, texts_of};
use longboat_key::{Key, Name, Namespace};
use longboat_plan::{Kind, ObjectKey, Snapshot};
use parking_lot::Mutex;

use crate::context::Context;

/// Lookups of a composition. Each is recorded, whether or not something was found, so that an object that is created later
/// triggers a reconcile.
pub(crate) struct Lookups<'a> {
    context: &'a Context,
    snapshot: &'a Snapshot,
    seen: Mutex<BTreeSet<ObjectKey>>,
}

// === impl Lookups ===

impl<'a> Lookups<'a> {
    pub(crate) fn new(context: &'a Context, snapshot: &'a Snapshot) -> Self {
        Self { context, snapshot, seen: Mutex::default() }
    }

    /// Everything that was looked up.
    pub(crate) fn seen(self) -> BTreeSet<ObjectKey> {
        self.seen.into_inner()
    }

    fn record(&self, kind: Kind, namespace: Namespace<&str>, name: Name<&str>) {
        self.seen.lock().insert(Key::new(namespace, name).of_kind(kind));
    }
}

impl ConfigSource for Lookups<'_> {
    fn get(&self, namespace: Namespace<&str>, name: Name<&str>) -> Option<Arc<Layer>> {
        self.record(Kind::Config, namespace, name);
        self.context.layer(&Key::new(namespace, name).of_kind(Kind::Config))
    }

    fn runtime(&self, namespace: Namespace<&str>, name: Name<&str>) -> Option<Arc<Layer>> {
        let kind = if namespace.is_empty() { Kind::ClusterServingRuntime } else { Kind::ServingRuntime };
        self.record(kind, namespace, name);
        self.context.layer(&Key::new(namespace, name).of_kind(kind))
    }
}

impl ConfigMapSource for Lookups<'_> {
    fn get(&self, namespace: Namespace<&str>, name: Name<&str>) -> Option<&BTreeMap<String, String>> {
        self.record(Kind::ConfigMap, namespace, name);
        self.snapshot.config_maps.get(namespace, name).map(texts_of)
    }
}
