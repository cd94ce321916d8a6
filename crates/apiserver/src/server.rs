//! The server: its parts at the start, and what its owner may set.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;

use crate::{
    addresses::Addresses,
    admission::Admission,
    front::send_queue::UnsentBytes,
    kinds::{Convert, Registry},
    long,
    pod_access::PodAccess,
    state::{Options, Sessions, State},
    store::{JournalError, Store},
    tokens::Issuer,
    verbs::crds,
    webhook::WebhookClients,
};

/// An API server. Clones share one state.
#[derive(Clone)]
pub struct ApiServer {
    pub(crate) state: Arc<State>,
}

// === impl ApiServer ===

impl ApiServer {
    /// Creates a server with the default namespaces and the objects in `options.state`.
    pub fn new(options: Options) -> Result<Self, JournalError> {
        let store = match &options.state {
            None => Store::in_memory(options.window),
            Some(directory) => Store::persistent(directory, options.window)?,
        };
        let state = Arc::new(State {
            issuer: Issuer::default(),
            addresses: Mutex::new(Addresses::new(options.service_range)),
            registry: Registry::default(),
            store,
            pods: RwLock::default(),
            admission: RwLock::default(),
            outgoing: WebhookClients::default(),
            sessions: Sessions::default(),
            unsent: Arc::new(UnsentBytes::new(options.unsent_limit)),
            long_writes: Arc::new(Semaphore::new(long::MAX_COMPUTING)),
            long_reads: Arc::new(Semaphore::new(long::MAX_COMPUTING)),
            options,
        });
        crate::bootstrap::fill(&state);
        crds::restore(&state);
        Ok(Self { state })
    }

    /// Sets the node that runs the pods. Logs and port-forwarding go to it.
    pub fn set_pod_access(&self, pods: Arc<dyn PodAccess>) {
        *self.state.pods.write() = Some(pods);
    }

    /// Adds an in-process admission hook. It runs after the webhooks from configuration objects.
    pub fn add_admission(&self, hook: Arc<dyn Admission>) {
        self.state.admission.write().push(hook);
    }

    /// Converts the custom resources of `group` between their versions with `convert` in this process, whatever the
    /// conversion strategy of their definitions is.
    pub fn convert_with(&self, group: &str, convert: Convert) {
        self.state.registry.convert_with(group, convert);
    }

    /// The revision of the last write.
    pub fn revision(&self) -> u64 {
        self.state.store.revision()
    }
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ApiServer").finish_non_exhaustive()
    }
}
