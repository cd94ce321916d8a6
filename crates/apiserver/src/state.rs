//! The state that all requests share, and the options of a server.

use std::{net::Ipv4Addr, path::PathBuf, sync::Arc};

use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    addresses::Addresses, admission::Admission, front::send_queue::UnsentBytes, kinds::Registry,
    pod_access::PodAccess, store::Store, tokens::Issuer, webhook::WebhookClients,
};

/// Options of a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory that stores the objects; in memory only if not given.
    pub state: Option<PathBuf>,
    /// How many changes per resource a watch can go back, unless the objects are so large that fewer must do.
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
    /// Permits for writes of large objects.
    pub(crate) long_writes: Arc<Semaphore>,
    /// Permits for reads of large objects, and of lists of them. They are not those of writes, because the hooks of a write may read.
    pub(crate) long_reads: Arc<Semaphore>,
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
