//! Where Gateways are served: their addresses, and which sockets are open. Pure functions.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
};

use longboat_api::foreign::gateway::{Gateway, GatewayAddress};
use longboat_key::Key;

use crate::{
    gateways::{IP_ADDRESS, Protocol, requested_addresses},
    problem::Problem,
};

/// Where Gateways are served, the sockets that are open, and the reasons why others are not.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ports {
    /// The places of Gateways. A Gateway without a place has no address.
    pub(crate) places: BTreeMap<Key, Place>,
    /// Ports that the process of a Gateway needs for itself.
    reserved: &'static [u16],
    /// The sockets that are open.
    pub(crate) open: BTreeMap<SocketAddr, Protocol>,
    /// The reasons why other sockets are not.
    pub(crate) closed: BTreeMap<SocketAddr, String>,
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

/// An address in the status of a Gateway.
pub(crate) fn ip_address(value: &impl ToString) -> GatewayAddress {
    GatewayAddress { type_: Some(IP_ADDRESS.into()), value: value.to_string(), ..GatewayAddress::default() }
}

// === impl Place ===

impl Place {
    /// Places a Gateway on this machine: on the loopback addresses that it asks for, or on the one that is assigned to it.
    pub(crate) fn on_machine(gateway: &Gateway, assigned: Option<IpAddr>) -> Self {
        let mut place = Self { picks: true, ..Self::default() };
        let requested = match requested_addresses(gateway) {
            Ok(requested) => requested,
            Err(problem) => return Self { refused: Some(problem), ..place },
        };
        if requested.is_empty() && assigned.is_none() {
            let message = "this machine has no address left for the gateway".to_owned();
            place.unserved = Some(Problem { reason: "AddressNotAssigned", message });
        }
        for address in requested.iter().filter(|address| !address.is_loopback()) {
            let message = format!("{address} is no loopback address, and this gateway serves no others");
            place.unserved = Some(Problem { reason: "AddressNotUsable", message });
        }
        place.sockets = if requested.is_empty() { assigned.into_iter().collect() } else { requested };
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
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn only(address: IpAddr, port: u16, gateways: &[std::sync::Arc<Gateway>]) -> Self {
        let place = |gateway: &std::sync::Arc<Gateway>| {
            (Key::of(gateway.as_ref()), Place::on_machine(gateway, Some(address)))
        };
        let places = gateways.iter().map(place).collect();
        let mut listeners = gateways.iter().flat_map(|gateway| &gateway.spec.listeners);
        let first = listeners.find(|listener| listener.port == i32::from(port));
        let protocol = first.and_then(crate::gateways::protocol).unwrap_or(Protocol::Http);
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
