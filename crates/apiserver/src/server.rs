//! The server and the state that all requests share.

use std::{net::Ipv4Addr, path::PathBuf, sync::Arc};

use parking_lot::{Mutex, RwLock};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    accounts::Issuer,
    addresses::Addresses,
    admission::Admission,
    front::send_queue::UnsentBytes,
    kinds::{Convert, Registry},
    pod_access::PodAccess,
    store::{JournalError, Store},
    verbs::crds,
    webhook::WebhookClients,
};

/// Options of a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory that stores the objects; in memory only if not given.
    pub state: Option<PathBuf>,
    /// How many changes per resource a watch can go back. Each change holds an object, so this also bounds memory.
    pub window: usize,
    /// The bearer token that requests over a listener must carry. If it is not given, everybody has access.
    pub token: Option<String>,
    /// Names that clients may use for a listener, besides loopback names, its own address and `kubernetes.default.svc`.
    pub hosts: Vec<String>,
    /// First address and prefix length of the range of cluster IPs.
    pub service_range: (Ipv4Addr, u8),
    /// The most bytes of watches that clients have not read yet, over all connections.
    pub unsent_limit: usize,
    /// Whether the service account that a pod names must exist, with `default` for pods that name none. Then another
    /// component must create `default` in every namespace.
    pub pods_need_accounts: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            state: None,
            window: 1024,
            token: None,
            hosts: Vec::new(),
            service_range: (Ipv4Addr::new(127, 96, 0, 0), 16),
            unsent_limit: 128 * 1024 * 1024,
            pods_need_accounts: false,
        }
    }
}

/// The state that all requests share.
pub(crate) struct State {
    pub(crate) options: Options,
    pub(crate) registry: Registry,
    pub(crate) store: Store,
    pub(crate) issuer: Issuer,
    pub(crate) addresses: Mutex<Addresses>,
    pub(crate) pods: RwLock<Option<Arc<dyn PodAccess>>>,
    pub(crate) admission: RwLock<Vec<Arc<dyn Admission>>>,
    pub(crate) outgoing: WebhookClients,
    pub(crate) sessions: Sessions,
    pub(crate) unsent: Arc<UnsentBytes>,
}

/// Connections that have changed their protocol and outlive their request.
#[derive(Default)]
pub(crate) struct Sessions {
    pub(crate) tasks: TaskTracker,
    /// Ends these connections, at the latest when the server is dropped.
    pub(crate) closing: CancellationToken,
}

impl Drop for Sessions {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

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
