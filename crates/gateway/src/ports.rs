//! The addresses of Gateways, and the sockets on which they listen.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    ops::RangeInclusive,
    sync::Arc,
    time::Duration,
};

use longboat_api::foreign::gateway::{Gateway, GatewayAddress};
use longboat_key::Key;
use longboat_tls::ServerOptions;
use rustls::ServerConfig;
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    RoutingInputs,
    listeners::{self, IP_ADDRESS, Problem, Protocol, asked_addresses, is_ours},
    proxy::Proxy,
    route::SharedTables,
    server,
};

/// The most sockets. Each costs a table of routes.
const MAX_SOCKETS: usize = 1024;

/// Where Gateways are served, the sockets that are open, and the reasons why others are not.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ports {
    /// The places of Gateways. A Gateway without a place has no address.
    pub(crate) places: BTreeMap<Key, Place>,
    /// Ports that the process of a Gateway needs for itself.
    reserved: &'static [u16],
    /// The sockets that are open.
    open: BTreeMap<SocketAddr, Protocol>,
    /// The reasons why other sockets are not.
    closed: BTreeMap<SocketAddr, String>,
}

/// Where a Gateway is served.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The addresses that clients use.
    pub(crate) addresses: Vec<GatewayAddress>,
    /// The addresses on which this process listens for the Gateway. Empty if other processes serve it.
    pub(crate) sockets: Vec<IpAddr>,
    /// Whether pools that name no picker have one in the process that serves the Gateway.
    pub(crate) picks: bool,
    /// Why the Gateway as a whole is not accepted.
    pub(crate) refused: Option<Problem>,
    /// Why the Gateway is not served, or not on all its addresses.
    pub(crate) unserved: Option<Problem>,
}

/// Where a process listens.
pub(crate) enum Binding {
    /// On loopback addresses of this machine. Gateways that ask for none get one of the range. The first socket is served by
    /// somebody else, always.
    Machine { first: SocketAddr, range: RangeInclusive<Ipv4Addr> },
    /// On this address, for the only Gateway.
    Pod(IpAddr),
}

/// The sockets behind [`Ports`], except for the first one of a machine.
pub(crate) struct Listeners {
    binding: Binding,
    proxy: Arc<Proxy>,
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
        |gateway: &&Arc<Gateway>| asked_addresses(gateway).is_ok_and(|asked| asked.is_empty());
    let ours: Vec<_> = observed.gateways.iter().filter(|gateway| is_ours(observed, gateway)).collect();
    let mut taken: BTreeSet<IpAddr> =
        ours.iter().filter_map(|gateway| asked_addresses(gateway).ok()).flatten().collect();
    let choosing: Vec<_> = ours.into_iter().filter(asks_for_none).collect();
    let mut addresses = BTreeMap::new();
    for gateway in &choosing {
        let key = Key::of(gateway.as_ref());
        let reported =
            gateway.status.as_ref().and_then(|status| status.addresses.first()?.value.parse().ok());
        let reported = reported.filter(|address| range.contains(address)).map(IpAddr::V4);
        if let Some(address) = before.get(&key).copied().or(reported)
            && taken.insert(address)
        {
            addresses.insert(key, address);
        }
    }
    let mut free = (u32::from(*range.start())..=u32::from(*range.end()))
        .map(|address| IpAddr::from(Ipv4Addr::from(address)));
    for gateway in choosing {
        let key = Key::of(gateway.as_ref());
        if !addresses.contains_key(&key)
            && let Some(address) = free.find(|address| taken.insert(*address))
        {
            addresses.insert(key, address);
        }
    }
    addresses
}

/// Returns the sockets that the listeners of Gateways need. Of listeners with different protocols the first wins.
fn needed(observed: &RoutingInputs, places: &BTreeMap<Key, Place>) -> BTreeMap<SocketAddr, Protocol> {
    let mut sockets = BTreeMap::new();
    for gateway in observed.gateways.iter().filter(|gateway| is_ours(observed, gateway)) {
        let key = Key::of(gateway.as_ref());
        let Some(place) = places.get(&key) else { continue };
        let sets = listeners::sets_of(observed, &key);
        let sets = sets.iter().filter(|set| listeners::allows_set(observed, gateway, set));
        for listener in gateway.spec.listeners.iter().chain(sets.flat_map(|set| &set.spec.listeners)) {
            let port = u16::try_from(listener.port).ok().filter(|port| *port > 0);
            let Some((protocol, port)) = listeners::protocol(listener).zip(port) else { continue };
            for address in &place.sockets {
                sockets.entry(SocketAddr::new(*address, port)).or_insert(protocol);
            }
        }
    }
    sockets
}

/// An address in the status of a Gateway.
pub(crate) fn ip_address(value: &impl ToString) -> GatewayAddress {
    GatewayAddress { type_: Some(IP_ADDRESS.into()), value: value.to_string() }
}

// === impl Place ===

impl Place {
    /// Places a Gateway on this machine: on the loopback addresses that it asks for, or on the one that is assigned to it.
    fn on_machine(gateway: &Gateway, assigned: Option<IpAddr>) -> Self {
        let mut place = Self { picks: true, ..Self::default() };
        let asked = match asked_addresses(gateway) {
            Ok(asked) => asked,
            Err(problem) => return Self { refused: Some(problem), ..place },
        };
        if asked.is_empty() && assigned.is_none() {
            let message = "this machine has no address left for the gateway".to_owned();
            place.unserved = Some(Problem { reason: "AddressNotAssigned", message });
        }
        for address in asked.iter().filter(|address| !address.is_loopback()) {
            let message = format!("{address} is no loopback address, and this gateway serves no others");
            place.unserved = Some(Problem { reason: "AddressNotUsable", message });
        }
        place.sockets = if asked.is_empty() { assigned.into_iter().collect() } else { asked };
        place.sockets.retain(IpAddr::is_loopback);
        place.addresses = place.sockets.iter().map(ip_address).collect();
        place
    }
}

// === impl Ports ===

impl Ports {
    /// Places that other processes serve. They need the `reserved` ports for themselves.
    pub(crate) fn elsewhere(places: BTreeMap<Key, Place>, reserved: &'static [u16]) -> Self {
        Self { places, reserved, ..Self::default() }
    }

    /// A single socket, on an address that all these Gateways have: for tests and fuzzing.
    pub(crate) fn only(address: IpAddr, port: u16, gateways: &[Arc<Gateway>]) -> Self {
        let place =
            |gateway: &Arc<Gateway>| (Key::of(gateway.as_ref()), Place::on_machine(gateway, Some(address)));
        let places = gateways.iter().map(place).collect();
        let mut listeners = gateways.iter().flat_map(|gateway| &gateway.spec.listeners);
        let first = listeners.find(|listener| listener.port == i32::from(port));
        let protocol = first.and_then(listeners::protocol).unwrap_or(Protocol::Http);
        let open = BTreeMap::from([(SocketAddr::new(address, port), protocol)]);
        Self { places, open, ..Self::default() }
    }

    /// Returns why a listener's port is not served on one of these addresses, or `None` if it is served.
    pub(crate) fn problem(&self, addresses: &[IpAddr], port: i32, protocol: Protocol) -> Option<Problem> {
        let number = u16::try_from(port).unwrap_or_default();
        let unavailable = |message| Some(Problem { reason: "PortUnavailable", message });
        if self.reserved.contains(&number) {
            return unavailable(format!(
                "the gateway serves probes and metrics on port {number}: use another"
            ));
        }
        addresses.iter().find_map(|address| {
            let socket = SocketAddr::new(*address, number);
            let message = match (self.open.get(&socket), self.closed.get(&socket)) {
                (Some(open), _) if *open == protocol => return None,
                (Some(_), _) => format!("another Gateway uses {socket} with another protocol"),
                (None, Some(reason)) => format!("cannot listen on {socket}: {reason}"),
                (None, None) => format!("this machine does not serve {socket}"),
            };
            unavailable(message)
        })
    }

    /// The sockets that are open.
    pub(crate) fn open(&self) -> impl Iterator<Item = SocketAddr> {
        self.open.keys().copied()
    }
}

// === impl Listeners ===

impl Listeners {
    /// Starts without sockets.
    pub(crate) fn new(
        binding: Binding,
        proxy: Arc<Proxy>,
        tables: SharedTables,
        drain: Duration,
        shutdown: CancellationToken,
    ) -> Self {
        let (ends, assigned, ports, tasks) =
            (BTreeMap::new(), BTreeMap::new(), Ports::default(), JoinSet::new());
        Self { binding, proxy, tables, drain, shutdown, ends, assigned, ports, tasks }
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
        while self.tasks.try_join_next().is_some() {}
        self.ports.places = self.places(observed);
        let needed = needed(observed, &self.ports.places);
        let open = &self.ports.open;
        self.ends.retain(|socket, end| {
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

    /// Handshakes look up the certificate in the current table, so it changes without a restart.
    fn tls(&self, socket: SocketAddr) -> Option<Arc<ServerConfig>> {
        let tables = self.tables.clone();
        let options = ServerOptions::with_alpn(&[b"h2", b"http/1.1"]);
        let choose = move |name: Option<&str>| tables.load().certificate(socket, name);
        longboat_tls::server_config_by_name(&options, choose).ok()
    }

    async fn serve(&mut self, socket: SocketAddr, protocol: Protocol) -> Result<CancellationToken, String> {
        if self.ends.len() == MAX_SOCKETS {
            return Err(format!("the gateway already listens on {MAX_SOCKETS} more sockets"));
        }
        let tls = match protocol {
            Protocol::Http => None,
            Protocol::Https => Some(self.tls(socket).ok_or("TLS is not available")?),
        };
        let listener = TcpListener::bind(socket).await.map_err(|error| error.to_string())?;
        let end = self.shutdown.child_token();
        self.tasks.spawn(server::run(listener, tls, self.proxy.clone(), self.drain, end.clone()));
        Ok(end)
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
        let gateway = |name: &str, asked: &[&str], reported: &str| {
            let address = |value: &&str| json!({"value": value});
            let addresses: Vec<_> = asked.iter().map(address).collect();
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
                gateway("kept", &[], "127.9.0.2"),
                gateway("elsewhere", &[], "127.8.0.1"),
                gateway("late", &[], ""),
            ],
            ..RoutingInputs::default()
        };
        let range = Ipv4Addr::new(127, 9, 0, 1)..=Ipv4Addr::new(127, 9, 0, 5);
        let first = assigned(&observed, &BTreeMap::new(), &range);
        let found: Vec<_> = first.iter().map(|(key, address)| format!("{} {address}", &*key.name)).collect();
        // There is no address left for the last one.
        assert_eq!(found, ["elsewhere 127.9.0.5", "empty 127.9.0.4", "kept 127.9.0.2", "new 127.9.0.3"]);
        assert_eq!(assigned(&observed, &first, &range), first);
    }
}
