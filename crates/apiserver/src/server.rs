//! The server as a whole: what all requests share.

use std::{net::Ipv4Addr, path::PathBuf, sync::Arc};

use parking_lot::{Mutex, RwLock};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    accounts::Accounts,
    addresses::Addresses,
    admission::Admission,
    kinds::{Convert, Registry},
    pod_access::PodAccess,
    store::{JournalError, Store},
    verbs::crds,
    webhook::Outgoing,
};

/// How a server behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where objects are stored; in memory only if not given.
    pub state: Option<PathBuf>,
    /// Changes per resource that watches can look back. Each holds an object, so this bounds memory, too.
    pub window: usize,
    /// Bearer token that requests over a listener must carry; none lets everybody in.
    pub token: Option<String>,
    /// Names by which clients may call a listener, besides loopback ones, its own address and `kubernetes.default.svc`.
    pub hosts: Vec<String>,
    /// First address and prefix length of the range of cluster IPs.
    pub service_range: (Ipv4Addr, u8),
    /// Whether a pod needs the service account that it names, and gets `default` where it names none. Somebody has to make
    /// that account in every namespace then.
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
            pods_need_accounts: false,
        }
    }
}

/// What all requests share.
pub(crate) struct State {
    pub(crate) options: Options,
    pub(crate) registry: Registry,
    pub(crate) store: Store,
    pub(crate) accounts: Accounts,
    pub(crate) addresses: Mutex<Addresses>,
    pub(crate) pods: RwLock<Option<Arc<dyn PodAccess>>>,
    pub(crate) admission: RwLock<Vec<Arc<dyn Admission>>>,
    pub(crate) outgoing: Outgoing,
    pub(crate) sessions: Sessions,
}

/// Connections that changed their protocol and live on by themselves.
#[derive(Default)]
pub(crate) struct Sessions {
    pub(crate) tasks: TaskTracker,
    /// Ends them all; at the latest when the server is dropped.
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
    /// A server with the default namespaces, and with what `options.state` holds.
    pub fn new(options: Options) -> Result<Self, JournalError> {
        let store = match &options.state {
            None => Store::in_memory(options.window),
            Some(directory) => Store::persistent(directory, options.window)?,
        };
        let state = Arc::new(State {
            accounts: Accounts::default(),
            addresses: Mutex::new(Addresses::new(options.service_range)),
            registry: Registry::default(),
            store,
            pods: RwLock::default(),
            admission: RwLock::default(),
            outgoing: Outgoing::default(),
            sessions: Sessions::default(),
            options,
        });
        crate::bootstrap::fill(&state);
        crds::restore(&state);
        Ok(Self { state })
    }

    /// Says who runs the pods: logs and port-forwarding go there.
    pub fn set_pod_access(&self, pods: Arc<dyn PodAccess>) {
        *self.state.pods.write() = Some(pods);
    }

    /// Adds an admission hook that runs in this process, after the webhooks of configuration objects.
    pub fn add_admission(&self, hook: Arc<dyn Admission>) {
        self.state.admission.write().push(hook);
    }

    /// Converts the custom resources of `group` between their versions with `convert`, in this process and whatever the
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
