//! The gateway: serves HTTPRoutes and InferencePools, and calls endpoint pickers as Envoy does.
//!
//! This is a Gateway API implementation for one machine. [`start`] watches the objects, computes the routing tables and the
//! statuses with pure functions of [`RoutingInputs`], writes the statuses, and proxies requests. Back ends are Services and
//! InferencePools. Each request to a pool goes through the picker's ext_proc stream, so the picker behaves as behind Envoy; a
//! picker in this process ([`Picking`]) sees the same events in the same order.
//! Requests to the first socket that no route matches are answered from a directory of the models of all services.

mod attach;
mod front;
mod grants;
mod keys;
mod listeners;
mod namespaces;
mod observed;
mod picking;
mod ports;
mod proxy;
mod resolved;
mod route;
mod scalable;
mod series;
mod server;
mod status;
mod tls_policies;
mod watch;

#[cfg(test)]
mod tests;

use std::{net::Ipv4Addr, ops::RangeInclusive, sync::Arc};

use arc_swap::ArcSwap;
use kube::Client;
use longboat_tls::ServerOptions;
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

use self::proxy::{Accounts, Activator};

pub use keys::{KeyLimits, KeyUsage};
pub use longboat_accept::Guard;
pub use observed::RoutingInputs;
pub use picking::Picking;
pub use proxy::{KeyReport, QueueSample};
pub use route::{Entrance, Routes};
pub use scalable::ScaleTarget;

/// `spec.controllerName` of the GatewayClasses that this gateway serves.
pub const CONTROLLER_NAME: &str = "longboat.dev/gateway";

/// Name of the GatewayClass that local mode installs.
pub const CLASS_NAME: &str = "longboat";

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
    tables: Arc<ArcSwap<route::Tables>>,
    accounts: Arc<Accounts>,
}

/// Serves all Gateways of this controller's classes. A Gateway listens on the addresses that its spec names, or on one of
/// `addresses` that it alone has, on the ports of its listeners. `listener` is always served, also without a Gateway: it alone
/// answers requests that no route matches.
pub fn start(
    client: Client,
    listener: TcpListener,
    addresses: RangeInclusive<Ipv4Addr>,
    guard: Guard,
    picking: Picking,
) -> std::io::Result<Gateway> {
    let first = listener.local_addr()?;
    let shutdown = CancellationToken::new();
    let tables = Arc::new(ArcSwap::from_pointee(route::Tables::default()));
    let proxy = Arc::new(proxy::Proxy::new(tables.clone(), guard, first, shutdown.clone()));
    let queue = Queue(proxy.activator.clone());
    let keys = Keys { tables: tables.clone(), accounts: proxy.accounts.clone() };
    let tls = {
        let tables = tables.clone();
        Box::new(move |socket| {
            let tables = tables.clone();
            let options = ServerOptions::with_alpn(&[b"h2", b"http/1.1"]);
            let choose = move |name: Option<&str>| tables.load().certificate(socket, name);
            longboat_tls::server_config_by_name(&options, choose).ok()
        })
    };
    let listeners = ports::Listeners::new(first, addresses, proxy.clone(), tls, shutdown.clone());
    let mut tasks = JoinSet::new();
    tasks.spawn(picking::run(client.clone(), picking, proxy.local_pickers(), shutdown.clone()));
    tasks.spawn(watch::run(client, listeners, tables.clone(), shutdown.clone()));
    tasks.spawn(server::run(listener, None, proxy, shutdown.clone()));
    Ok(Gateway { routes: Routes(tables), queue, keys, tasks, shutdown })
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
