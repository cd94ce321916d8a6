//! The gateway of local mode: serves all Gateways on loopback addresses of this machine, and writes their statuses.

use std::{collections::BTreeSet, net::Ipv4Addr, ops::RangeInclusive, sync::Arc, time::Duration};

use kube::Client;
use longboat_accept::Guard;
use longboat_watch::text_of;
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    KeyReport, Picking, QueueSample, Routes, ScaleTarget,
    keys::RefusedKeys,
    picking,
    proxy::{Accounts, Activator, Proxy},
    report::report,
    resolved::Resolved,
    route::RouteParser,
    server::ProxyThreads,
    sockets::{Binding, Sockets},
    tables::{SharedTables, Tables},
    watch::{Scope, Watcher},
};

/// The wait after a failed status write. The next change usually comes first.
const RETRY: Duration = Duration::from_secs(1);

/// How long running requests may continue after the shutdown: a person waits for it.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// A running gateway.
#[derive(Debug)]
pub struct Gateway {
    routes: Routes,
    queue: Queue,
    keys: Keys,
    tasks: JoinSet<()>,
    shutdown: CancellationToken,
}

/// The requests that wait in a gateway until a scaler starts an endpoint.
#[derive(Clone)]
pub struct Queue(Arc<Activator>);

/// The API keys of a gateway, and what they have used.
#[derive(Clone)]
pub struct Keys {
    tables: SharedTables,
    accounts: Arc<Accounts>,
}

/// Serves all Gateways of this controller's classes. A Gateway listens on the addresses that its spec names, or on one of
/// `addresses` that it alone has, on the ports of its sockets. `listener` is always served, also without a Gateway: it alone
/// answers requests that no route matches.
pub fn start(
    client: Client,
    listener: TcpListener,
    addresses: RangeInclusive<Ipv4Addr>,
    guard: Guard,
    picking: Picking,
) -> std::io::Result<Gateway> {
    let client = longboat_watch::named(client, crate::report::SENDER);
    let first = listener.local_addr()?;
    let shutdown = CancellationToken::new();
    let tables = SharedTables::default();
    let proxy = Arc::new(Proxy::new(tables.clone(), Some(guard), Some(first), shutdown.clone()));
    // The proxies of the threads share both.
    let queue = Queue(proxy.activator.clone());
    let keys = Keys { tables: tables.clone(), accounts: proxy.accounts.clone() };
    let binding = Binding::Machine { first, range: addresses };
    let threads = ProxyThreads::start(&proxy)?;
    let sockets = Sockets::new(binding, threads.clone(), tables.clone(), DRAIN_TIMEOUT, shutdown.clone());
    let mut tasks = JoinSet::new();
    tasks.spawn(picking::run(client.clone(), picking, proxy.local_pickers(), shutdown.clone()));
    tasks.spawn(run(client, sockets, proxy, tables.clone(), shutdown.clone()));
    let until = shutdown.clone();
    tasks.spawn(async move { threads.serve(listener, None, DRAIN_TIMEOUT, until).await });
    Ok(Gateway { routes: Routes(tables), queue, keys, tasks, shutdown })
}

/// Updates the ports, the tables and the statuses until `shutdown`.
async fn run(
    client: Client,
    mut sockets: Sockets,
    proxy: Arc<Proxy>,
    tables: SharedTables,
    shutdown: CancellationToken,
) {
    let mut watcher = Watcher::start(&client, &Scope::Machine);
    let mut parser = RouteParser::default();
    let mut refused_keys = RefusedKeys::default();
    let follow = async {
        while let Some(observed) = watcher.next(|_| BTreeSet::new()).await {
            sockets.follow(&observed).await;
            sockets.try_again(watcher.source());
            let ports = sockets.ports();
            let resolved = Resolved::compute(&observed, ports, &mut parser).await;
            let next = Tables::new(&observed, ports, &resolved);
            refused_keys.log(&next.keys().refused);
            next.replace(&tables);
            proxy.metrics.table();
            if let Err(error) = report(&client, &observed, &resolved).await {
                tracing::warn!(error = %text_of(&error), "Cannot write the status of a Gateway; will retry.");
                // Not a sleep: the next table must not wait for a status.
                watcher.source().wake_after(RETRY);
            }
        }
    };
    tokio::select! {
        () = follow => {}
        () = shutdown.cancelled() => {}
    }
    sockets.ended().await;
}

// === impl Queue ===

impl Queue {
    /// Returns the series of all back ends for which requests may wait.
    pub fn samples(&self) -> Vec<QueueSample> {
        self.0.samples()
    }

    /// Returns the series of the back ends whose pods come from this workload.
    pub fn samples_for(&self, target: &ScaleTarget) -> Vec<QueueSample> {
        self.0.samples_for(target)
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.samples()).finish()
    }
}

// === impl Keys ===

impl Keys {
    /// Returns all keys, sorted by name, and the Secrets that cannot be used.
    pub fn report(&self) -> Vec<KeyReport> {
        self.accounts.report(self.tables.load().keys())
    }
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.report()).finish()
    }
}

// === impl Gateway ===

impl Gateway {
    /// Returns the routes that the gateway serves, now and later.
    pub fn routes(&self) -> Routes {
        self.routes.clone()
    }

    /// Returns the requests that wait for an endpoint, now and later.
    pub fn queue(&self) -> Queue {
        self.queue.clone()
    }

    /// Returns the API keys, now and later.
    pub fn keys(&self) -> Keys {
        self.keys.clone()
    }

    /// Stops accepting connections, lets running requests finish for a short time, and ends.
    pub async fn shutdown(mut self) {
        self.shutdown.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}
