//! The ports that Gateways request, in addition to the port that this gateway always serves.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    RoutingInputs,
    attach::{PROTOCOL, is_ours},
    proxy::Proxy,
    server,
};

/// The most additional ports. Each costs a socket and a copy of its routes.
const LIMIT: usize = 64;

/// The ports that are served, and the reasons why others are not.
#[derive(Debug, Clone)]
pub(crate) struct Ports {
    /// The address of all ports.
    pub(crate) address: IpAddr,
    /// The ports that are served.
    pub(crate) open: BTreeSet<u16>,
    /// The reasons why requested ports are not served.
    pub(crate) closed: BTreeMap<u16, String>,
}

/// The sockets behind [`Ports`], except for the first one.
pub(crate) struct Listeners {
    address: IpAddr,
    first: u16,
    proxy: Arc<Proxy>,
    /// Ends all listeners.
    shutdown: CancellationToken,
    open: BTreeMap<u16, CancellationToken>,
    closed: BTreeMap<u16, String>,
    tasks: JoinSet<()>,
}

/// Returns the ports of every HTTP listener of this controller's Gateways.
pub(crate) fn wanted(observed: &RoutingInputs) -> BTreeSet<u16> {
    let ours = observed.gateways.iter().filter(|gateway| is_ours(observed, gateway));
    let listeners = ours.flat_map(|gateway| &gateway.spec.listeners);
    let http = listeners.filter(|listener| listener.protocol == PROTOCOL);
    http.filter_map(|listener| u16::try_from(listener.port).ok().filter(|port| *port > 0)).collect()
}

// === impl Ports ===

impl Ports {
    /// A single port of an address.
    pub(crate) fn only(address: IpAddr, port: u16) -> Self {
        Self { address, open: BTreeSet::from([port]), closed: BTreeMap::new() }
    }

    /// Returns why a listener's port is not served, or `None` if it is served.
    pub(crate) fn problem(&self, port: i32) -> Option<String> {
        let number = u16::try_from(port).unwrap_or_default();
        if self.open.contains(&number) {
            return None;
        }
        let open: Vec<_> = self.open.iter().map(ToString::to_string).collect();
        Some(match self.closed.get(&number) {
            Some(reason) => format!("cannot listen on {}:{port}: {reason}", self.address),
            None => format!("this machine does not serve port {port}, only {}", open.join(", ")),
        })
    }
}

// === impl Listeners ===

impl Listeners {
    /// Starts with only the first port, which has its own socket.
    pub(crate) fn new(address: IpAddr, first: u16, proxy: Arc<Proxy>, shutdown: CancellationToken) -> Self {
        Self {
            address,
            first,
            proxy,
            shutdown,
            open: BTreeMap::new(),
            closed: BTreeMap::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Opens the ports that are now wanted, and closes the others. A port that could not be opened is tried again on each
    /// call.
    pub(crate) async fn follow(&mut self, wanted: &BTreeSet<u16>) {
        while self.tasks.try_join_next().is_some() {}
        self.open.retain(|port, end| {
            let keep = wanted.contains(port);
            if !keep {
                end.cancel();
            }
            keep
        });
        self.closed.clear();
        for port in wanted.iter().copied().filter(|port| *port != self.first) {
            if self.open.contains_key(&port) {
                continue;
            }
            if self.open.len() == LIMIT {
                self.closed.insert(port, format!("the gateway already serves {LIMIT} more ports"));
                continue;
            }
            match TcpListener::bind((self.address, port)).await {
                Ok(listener) => {
                    let end = self.shutdown.child_token();
                    self.tasks.spawn(server::run(listener, self.proxy.clone(), end.clone()));
                    self.open.insert(port, end);
                }
                Err(error) => {
                    self.closed.insert(port, error.to_string());
                }
            }
        }
    }

    /// Returns the ports that are served now.
    pub(crate) fn ports(&self) -> Ports {
        let open = self.open.keys().copied().chain([self.first]).collect();
        Ports { address: self.address, open, closed: self.closed.clone() }
    }

    /// Waits until all listeners have ended after the shutdown.
    pub(crate) async fn ended(mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}
