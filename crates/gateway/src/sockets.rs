//! The sockets on which the Gateways of this process listen.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ops::RangeInclusive,
    sync::Arc,
    time::Duration,
};

use longboat_api::foreign::gateway::Gateway;
use longboat_key::Key;
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    RoutingInputs,
    gateways::{self, Protocol, requested_addresses},
    ports::{Place, Ports},
    server::ProxyThreads,
    socket_tls::SocketTls,
    source::Source,
    tables::SharedTables,
};

/// The most sockets. Each costs a table of routes.
const MAX_SOCKETS: usize = 1024;

/// How long to wait before a socket that could not be opened is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Where a process listens.
pub(crate) enum Binding {
    /// On loopback addresses of this machine. Gateways that ask for none get one of the range. The first socket is served by
    /// somebody else, always.
    Machine { first: SocketAddr, range: RangeInclusive<Ipv4Addr> },
    /// On this address, for the only Gateway.
    Pod(IpAddr),
}

/// The sockets behind [`Ports`], except for the first one of a machine.
pub(crate) struct Sockets {
    binding: Binding,
    threads: Arc<ProxyThreads>,
    /// With the certificates of HTTPS sockets.
    tables: SharedTables,
    /// How long running requests may continue after the end of a listener.
    drain: Duration,
    /// Ends all listeners.
    shutdown: CancellationToken,
    ends: BTreeMap<SocketAddr, CancellationToken>,
    /// The addresses of Gateways that ask for none.
    assigned: BTreeMap<Key, IpAddr>,
    ports: Ports,
    tasks: JoinSet<()>,
}

/// Returns the addresses of the Gateways that ask for none. A Gateway keeps its address, also after a restart.
fn assigned(
    observed: &RoutingInputs,
    before: &BTreeMap<Key, IpAddr>,
    range: &RangeInclusive<Ipv4Addr>,
) -> BTreeMap<Key, IpAddr> {
    let asks_for_none =
        |gateway: &&Arc<Gateway>| requested_addresses(gateway).is_ok_and(|requested| requested.is_empty());
    let ours: Vec<_> = gateways::ours(observed).collect();
    // First the addresses that Gateways name, because these have no choice.
    let mut used: BTreeSet<IpAddr> =
        ours.iter().filter_map(|gateway| requested_addresses(gateway).ok()).flatten().collect();
    let choosing: Vec<_> = ours.into_iter().filter(asks_for_none).collect();
    let mut addresses = BTreeMap::new();
    for gateway in &choosing {
        let key = Key::of(gateway.as_ref());
        let reported =
            gateway.status.as_ref().and_then(|status| status.addresses.first()?.value.parse().ok());
        let reported = reported.filter(|address| range.contains(address)).map(IpAddr::V4);
        if let Some(address) = before.get(&key).copied().or(reported)
            && used.insert(address)
        {
            addresses.insert(key, address);
        }
    }
    let mut free = (u32::from(*range.start())..=u32::from(*range.end()))
        .map(|address| IpAddr::from(Ipv4Addr::from(address)));
    for gateway in choosing {
        let key = Key::of(gateway.as_ref());
        if !addresses.contains_key(&key)
            && let Some(address) = free.find(|address| used.insert(*address))
        {
            addresses.insert(key, address);
        }
    }
    addresses
}

/// Returns the sockets that the listeners of Gateways need. Of listeners with different protocols the first wins.
fn needed(observed: &RoutingInputs, places: &BTreeMap<Key, Place>) -> BTreeMap<SocketAddr, Protocol> {
    let mut sockets = BTreeMap::new();
    for gateway in gateways::ours(observed) {
        let key = Key::of(gateway.as_ref());
        let Some(place) = places.get(&key) else { continue };
        let sets = gateways::sets_of(observed, &key);
        let sets = sets.iter().filter(|set| gateways::allows_set(observed, gateway, set));
        for listener in gateway.spec.listeners.iter().chain(sets.flat_map(|set| &set.spec.listeners)) {
            let port = u16::try_from(listener.port).ok().filter(|port| *port > 0);
            let Some((protocol, port)) = gateways::protocol(listener).zip(port) else { continue };
            for address in &place.sockets {
                sockets.entry(SocketAddr::new(*address, port)).or_insert(protocol);
            }
        }
    }
    sockets
}

// === impl Sockets ===

impl Sockets {
    /// Starts without sockets.
    pub(crate) fn new(
        binding: Binding,
        threads: Arc<ProxyThreads>,
        tables: SharedTables,
        drain: Duration,
        shutdown: CancellationToken,
    ) -> Self {
        let (ends, assigned, ports, tasks) =
            (BTreeMap::new(), BTreeMap::new(), Ports::default(), JoinSet::new());
        Self { binding, threads, tables, drain, shutdown, ends, assigned, ports, tasks }
    }

    fn places(&mut self, observed: &RoutingInputs) -> BTreeMap<Key, Place> {
        if let Binding::Machine { range, .. } = &self.binding {
            self.assigned = assigned(observed, &self.assigned, range);
        }
        let place = |gateway: &Arc<Gateway>| {
            let key = Key::of(gateway.as_ref());
            let place = match &self.binding {
                Binding::Machine { .. } => Place::on_machine(gateway, self.assigned.get(&key).copied()),
                Binding::Pod(address) => Place { sockets: vec![*address], ..Place::default() },
            };
            (key, place)
        };
        observed.gateways.iter().map(place).collect()
    }

    /// Assigns addresses, opens the sockets that are now needed, and closes the others. A socket that could not be opened is
    /// tried again on each call.
    pub(crate) async fn follow(&mut self, observed: &RoutingInputs) {
        // Otherwise a set keeps the results of tasks that have ended.
        while self.tasks.try_join_next().is_some() {}
        self.ports.places = self.places(observed);
        let needed = needed(observed, &self.ports.places);
        let open = &self.ports.open;
        self.ends.retain(|socket, end| {
            // A socket whose protocol changes closes, too.
            let keep = needed.get(socket) == open.get(socket);
            if !keep {
                end.cancel();
            }
            keep
        });
        self.ports.open.retain(|socket, _| self.ends.contains_key(socket));
        if let Binding::Machine { first, .. } = self.binding {
            self.ports.open.insert(first, Protocol::Http);
        }
        self.ports.closed.clear();
        for (socket, protocol) in needed {
            if self.ports.open.contains_key(&socket) {
                continue;
            }
            match self.serve(socket, protocol).await {
                Ok(end) => {
                    self.ends.insert(socket, end);
                    self.ports.open.insert(socket, protocol);
                }
                Err(reason) => {
                    self.ports.closed.insert(socket, reason);
                }
            }
        }
    }

    async fn serve(&mut self, socket: SocketAddr, protocol: Protocol) -> Result<CancellationToken, String> {
        if self.ends.len() == MAX_SOCKETS {
            return Err(format!("the gateway already listens on {MAX_SOCKETS} more sockets"));
        }
        let tls = match protocol {
            Protocol::Http => None,
            Protocol::Https => Some(SocketTls::new(socket, self.tables.clone())),
        };
        // A socket that closes for another protocol is still bound here, and is opened at the next try.
        let listener = TcpListener::bind(socket).await.map_err(|error| error.to_string())?;
        let end = self.shutdown.child_token();
        let (threads, drain, until) = (self.threads.clone(), self.drain, end.clone());
        self.tasks.spawn(async move { threads.serve(listener, tls, drain, until).await });
        Ok(end)
    }

    /// Lets the watcher wake up if a socket could not be opened: no change of an object says that its port is free.
    pub(crate) fn try_again(&self, source: &Source) {
        if !self.ports.closed.is_empty() {
            source.wake_after(RETRY_INTERVAL);
        }
    }

    /// Returns the state of the sockets.
    pub(crate) fn ports(&self) -> &Ports {
        &self.ports
    }

    /// Waits until all listeners have ended after the shutdown.
    pub(crate) async fn ended(mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_gateway_keeps_its_address_and_no_two_have_the_same() {
        let gateway = |name: &str, requested: &[&str], reported: &str| {
            let address = |value: &&str| json!({"value": value});
            let addresses: Vec<_> = requested.iter().map(address).collect();
            Arc::new(
                serde_json::from_value(json!({
                    "metadata": {"name": name, "namespace": "ns"},
                    "spec": {"gatewayClassName": "c", "addresses": addresses},
                    "status": {"addresses": [{"value": reported}]},
                }))
                .unwrap(),
            )
        };
        let class = json!({"metadata": {"name": "c"}, "spec": {"controllerName": crate::CONTROLLER_NAME}});
        let observed = RoutingInputs {
            classes: vec![Arc::new(serde_json::from_value(class).unwrap())],
            gateways: vec![
                gateway("new", &[], ""),
                gateway("asks", &["127.9.0.1"], ""),
                gateway("empty", &[""], ""),
                gateway("unchanged", &[], "127.9.0.2"),
                gateway("elsewhere", &[], "127.8.0.1"),
                gateway("late", &[], ""),
            ],
            ..RoutingInputs::default()
        };
        let range = Ipv4Addr::new(127, 9, 0, 1)..=Ipv4Addr::new(127, 9, 0, 5);
        let first = assigned(&observed, &BTreeMap::new(), &range);
        let found: Vec<_> = first.iter().map(|(key, address)| format!("{} {address}", &*key.name)).collect();
        // There is no address left for the last one.
        assert_eq!(found, ["elsewhere 127.9.0.5", "empty 127.9.0.4", "new 127.9.0.3", "unchanged 127.9.0.2"]);
        assert_eq!(assigned(&observed, &first, &range), first);
    }
}
