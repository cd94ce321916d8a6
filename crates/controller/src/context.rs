//! The state that all reconciles share.

use std::{collections::HashMap, sync::Arc};

use kube::Client;
use longboat_api::names;
use longboat_compose::{
    ComposeError, Composer, Effective, Layer, Platform, PresetNames, platform::PlatformError, texts_of,
};
use longboat_key::{Key, Name, Namespace};
use longboat_plan::{Capabilities, Kind, ObjectKey, Unlisted};
use longboat_store::Index;
use parking_lot::RwLock;

use crate::{
    apply_cache::ApplyCache,
    args::Args,
    caches::Caches,
    events::EventSink,
    hash,
    merged::MergedSpecValidator,
    metrics::{Metrics, Worker},
    pod_reports::PodReports,
    proof::requests::Proofs,
    queue::Queue,
    secret_contents::SecretContents,
};

/// If more services than this depend on a changed object, they are enqueued with background priority.
const BACKGROUND_THRESHOLD: usize = 32;

/// The state that all reconciles share.
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) args: Args,
    pub(crate) caches: Caches,
    pub(crate) index: Index<Kind>,
    /// Services to reconcile.
    pub(crate) services: Queue<Key>,
    /// Configs to reconcile.
    pub(crate) configs: Queue<Key>,
    pub(crate) events: EventSink,
    pub(crate) metrics: Metrics,
    pub(crate) composer: Composer,
    pub(crate) validator: MergedSpecValidator,
    /// Children that other parties' webhooks change.
    pub(crate) apply_cache: ApplyCache,
    /// The proof requests.
    pub(crate) proofs: Proofs,
    /// The progress of running downloads.
    pub(crate) downloads: PodReports<longboat_plan::Download>,
    /// What pods say about adapters that are loaded while they run.
    pub(crate) adapters: PodReports<Vec<longboat_plan::PodAdapters>>,
    /// Contents of Secrets that services refer to.
    pub(crate) secret_contents: SecretContents,
    pub(crate) preset_names: PresetNames,
    capabilities: RwLock<Capabilities>,
    unlisted: RwLock<Arc<Unlisted>>,
    platform: RwLock<PlatformState>,
    /// The configs and runtimes, parsed and ready to merge.
    layers: RwLock<HashMap<ObjectKey, Arc<Layer>>>,
    /// What each service was last composed from. While that stays the same, its warnings stay the same.
    composed: parking_lot::Mutex<HashMap<Key, CompositionInputs>>,
    /// The error of each service's last reconcile, so that a repeated error does not become another event.
    errors: parking_lot::Mutex<HashMap<Key, String>>,
}

/// The input from which a service was composed.
struct CompositionInputs {
    /// A hash of the service's own spec.
    own: u64,
    layers: Box<[Arc<Layer>]>,
}

/// The parsed platform settings, or why they cannot be used.
pub(crate) type PlatformState = Result<Arc<Platform>, PlatformError>;

// === impl Context ===

impl Context {
    pub(crate) fn new(client: Client, args: Args, events: EventSink, metrics: Metrics) -> Self {
        let preset_names =
            PresetNames { prefix: args.preset_prefix.clone(), versioned: args.versioned_presets };
        Self {
            client,
            caches: Caches::default(),
            index: Index::default(),
            services: Queue::new(metrics.queue(Worker::Services)),
            configs: Queue::new(metrics.queue(Worker::Configs)),
            events,
            metrics,
            composer: Composer::default(),
            validator: MergedSpecValidator::default(),
            apply_cache: ApplyCache::default(),
            proofs: Proofs::default(),
            downloads: PodReports::default(),
            adapters: PodReports::default(),
            secret_contents: SecretContents::default(),
            preset_names,
            capabilities: RwLock::new(Capabilities {
                cluster_scope: args.namespaces.is_empty(),
                ..Capabilities::default()
            }),
            unlisted: RwLock::default(),
            platform: RwLock::new(Err(PlatformError::Missing { name: names::PLATFORM_CONFIG_MAP })),
            composed: parking_lot::Mutex::default(),
            errors: parking_lot::Mutex::default(),
            layers: RwLock::default(),
            args,
        }
    }

    pub(crate) fn platform(&self) -> PlatformState {
        self.platform.read().clone()
    }

    /// Parses the platform settings from the cache. Returns whether they changed.
    pub(crate) fn load_platform(&self) -> bool {
        let namespace = self.args.system_namespace.as_deref();
        let key = Key::new(namespace, Name(names::PLATFORM_CONFIG_MAP));
        let parsed = match self.caches.config_maps.get(&key) {
            None => Err(PlatformError::Missing { name: names::PLATFORM_CONFIG_MAP }),
            Some(found) => {
                Platform::parse_for(texts_of(&found), namespace, self.args.image.as_deref()).map(Arc::new)
            }
        };
        let mut platform = self.platform.write();
        let changed = *platform != parsed;
        *platform = parsed;
        changed
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        *self.capabilities.read()
    }

    /// Changes the capabilities. If they differ afterwards, enqueues every service.
    pub(crate) fn update_capabilities(&self, change: impl FnOnce(&mut Capabilities)) {
        let mut capabilities = self.capabilities.write();
        let before = *capabilities;
        change(&mut capabilities);
        let changed = *capabilities != before;
        // Every reconcile takes this lock, and enqueuing thousands of services takes a while.
        drop(capabilities);
        if changed {
            self.enqueue_all();
        }
    }

    pub(crate) fn unlisted(&self) -> Arc<Unlisted> {
        self.unlisted.read().clone()
    }

    /// Records whether the controller may list a kind in a namespace, or in all.
    pub(crate) fn note_right(&self, kind: Kind, namespace: Option<Namespace>, may_list: bool) {
        let mut unlisted = self.unlisted.write();
        let (entry, all) = ((kind, namespace), Arc::make_mut(&mut unlisted));
        let changed = if may_list { all.remove(&entry) } else { all.insert(entry) };
        drop(unlisted);
        if changed {
            self.enqueue_all();
        }
    }

    /// Enqueues every service.
    pub(crate) fn enqueue_all(&self) {
        for service in self.caches.inference_services.keys() {
            self.services.add_background(service);
        }
    }

    /// Enqueues the services that depend on a changed object. If they are many, they get background priority, so that other
    /// services need not wait.
    pub(crate) fn enqueue_dependents(&self, services: Vec<Key>) {
        let are_many = services.len() > BACKGROUND_THRESHOLD;
        for service in services {
            if are_many {
                self.services.add_background(service);
            } else {
                self.services.add(service);
            }
        }
    }

    /// Records from which layers a service was composed. Returns whether these differ from the last ones. Computing warnings
    /// about layers takes longer than merging, so it is done only when the layers change.
    pub(crate) fn has_new_layers(&self, service: &Key, effective: &Effective) -> bool {
        let Some(own) = hash::of(effective.own()) else { return true };
        let now = CompositionInputs { own, layers: effective.layers().into() };
        let mut composed = self.composed.lock();
        let same = |known: &CompositionInputs| {
            known.own == now.own
                && known.layers.len() == now.layers.len()
                // A layer is parsed once for each version of its object, so equal pointers are equal layers.
                && known.layers.iter().zip(&now.layers).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        if composed.get(service).is_some_and(same) {
            return false;
        }
        composed.insert(service.clone(), now);
        true
    }

    /// Forgets from which layers a service was composed.
    pub(crate) fn forget_layers(&self, service: &Key) {
        self.composed.lock().remove(service);
    }

    /// Records the error of a reconcile, or its success. Returns whether the error is a new one.
    pub(crate) fn note_error(&self, service: &Key, error: Option<&str>) -> bool {
        let mut errors = self.errors.lock();
        match error {
            Some(error) if errors.get(service).is_some_and(|known| known == error) => false,
            Some(error) => {
                errors.insert(service.clone(), error.to_owned());
                true
            }
            None => {
                errors.remove(service);
                false
            }
        }
    }

    /// The parsed layer of a config or runtime.
    pub(crate) fn layer(&self, object: &ObjectKey) -> Option<Arc<Layer>> {
        self.layers.read().get(object).cloned()
    }

    /// Stores the layer of a config or runtime, or removes it if the object is gone or invalid.
    pub(crate) fn set_layer(&self, object: ObjectKey, layer: Option<Result<Layer, ComposeError>>) {
        let layer = layer.and_then(|layer| match layer {
            Ok(layer) => Some(Arc::new(layer)),
            Err(error) => {
                tracing::warn!(%object, %error, "The layer is invalid.");
                None
            }
        });
        let mut layers = self.layers.write();
        match layer {
            Some(layer) => layers.insert(object, layer),
            None => layers.remove(&object),
        };
    }
}
