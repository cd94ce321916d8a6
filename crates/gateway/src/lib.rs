//! HTTPRoutes and InferencePools served on one port, asking the picker as Envoy would.
//!
//! A Gateway API implementation for one machine: [`start`] watches the objects, keeps a routing table made by pure
//! functions ([`Observed`] → tables and statuses), reports status, and proxies. Back ends are Services and
//! InferencePools; for a pool every request goes through the picker's ext_proc stream, so what Envoy would see is what
//! happens here. Requests that no route takes come to the front door, which knows the models of all services.

mod access;
mod attach;
mod front;
mod observed;
mod ports;
mod proxy;
mod route;
mod server;
mod status;
mod watch;

use std::sync::Arc;

use arc_swap::ArcSwap;
use kube::Client;
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

pub use access::Access;
pub use observed::Observed;

/// `spec.controllerName` of the GatewayClasses that this gateway serves.
pub const CONTROLLER_NAME: &str = "longboat.dev/gateway";

/// Name of the GatewayClass that local mode installs.
pub const CLASS_NAME: &str = "longboat";

/// A running gateway.
#[derive(Debug)]
pub struct Gateway {
    tasks: JoinSet<()>,
    shutdown: CancellationToken,
}

/// Serves all Gateways of our classes: on the port of `listener`, and on the same address on every further port that a
/// listener of theirs names, where it can be had.
pub fn start(client: Client, listener: TcpListener, access: Access) -> std::io::Result<Gateway> {
    let address = listener.local_addr()?;
    let shutdown = CancellationToken::new();
    let tables = Arc::new(ArcSwap::from_pointee(route::Tables::default()));
    let proxy = Arc::new(proxy::Proxy::new(tables.clone(), access));
    let listeners = ports::Listeners::new(address.ip(), address.port(), proxy.clone(), shutdown.clone());
    let mut tasks = JoinSet::new();
    tasks.spawn(watch::run(client, listeners, tables, shutdown.clone()));
    tasks.spawn(server::run(listener, proxy, shutdown.clone()));
    Ok(Gateway { tasks, shutdown })
}

// === impl Gateway ===

impl Gateway {
    /// Takes no new connection, lets running requests finish for a moment, and ends.
    pub async fn shutdown(mut self) {
        self.shutdown.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}
