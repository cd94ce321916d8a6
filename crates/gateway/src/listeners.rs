//! Resolves the listeners of this controller's Gateways, with those that ListenerSets add: addresses, certificates, conflicts,
//! and the kinds of routes that may attach. Pure functions.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use longboat_api::foreign::{
    gateway::{AllowedRoutes, Gateway, Listener as ListenerSpec, RouteGroupKind},
    listenerset::ListenerSet,
};
use longboat_key::{Key, Namespace};
use longboat_tls::{ClientCertificates, ServerCertificate};

use crate::{
    RoutingInputs,
    certificates::{self, ListenerSecrets},
    client_certificates::{self, BackendCertificate, ClientDemand},
    gateways::{self, Protocol, allows_set, protocol, sets_of, terminates},
    grants::{GATEWAY_GROUP, Referrer},
    ports::{Place, Ports},
    problem::{Problem, UNSUPPORTED_VALUE},
};

/// A Gateway of this controller.
#[derive(Debug)]
pub(crate) struct ServedGateway {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) key: Key,
    /// Why the Gateway as a whole is not accepted.
    pub(crate) refused: Option<Problem>,
    pub(crate) place: Place,
    /// Its own listeners, then those of its ListenerSets.
    pub(crate) listeners: Vec<Listener>,
    pub(crate) sets: Vec<ServedSet>,
    /// The certificate that it shows to back ends with TLS, if it names one.
    pub(crate) client_certificate: Option<BackendCertificate>,
}

/// A ListenerSet whose parent is a Gateway of this controller.
#[derive(Debug)]
pub(crate) struct ServedSet {
    pub(crate) set: Arc<ListenerSet>,
    pub(crate) key: Key,
    /// Whether the Gateway allows the set.
    pub(crate) allowed: bool,
}

/// A listener of a Gateway.
#[derive(Debug)]
pub(crate) struct Listener {
    /// The ListenerSet that adds it, if any.
    pub(crate) set: Option<Key>,
    pub(crate) name: String,
    pub(crate) port: i32,
    pub(crate) host: Option<String>,
    /// `None` for a protocol that this gateway does not serve.
    pub(crate) protocol: Option<Protocol>,
    pub(crate) kinds: Vec<RouteGroupKind>,
    pub(crate) allowed: Option<AllowedRoutes>,
    /// Why it is not accepted.
    pub(crate) refused: Option<Problem>,
    /// The other listener that has its port or host name.
    pub(crate) conflict: Option<Problem>,
    /// Why its references cannot be resolved.
    pub(crate) unresolved: Option<Problem>,
    pub(crate) certificates: Vec<ServerCertificate>,
    /// Which certificates its clients need.
    pub(crate) clients: ClientCertificates,
}

/// Resolves all Gateways of this controller.
pub(crate) fn served(observed: &RoutingInputs, ports: &Ports) -> Vec<ServedGateway> {
    let mut all: Vec<_> =
        gateways::ours(observed).map(|gateway| ServedGateway::new(observed, ports, gateway)).collect();
    refuse_other_clients(&mut all);
    all
}

/// Refuses listeners whose socket another Gateway has, with other demands on clients: the handshake comes before anything that says
/// which Gateway a client wants.
fn refuse_other_clients(gateways: &mut [ServedGateway]) {
    let mut demands: BTreeMap<SocketAddr, ClientCertificates> = BTreeMap::new();
    for gateway in gateways {
        for at in 0..gateway.listeners.len() {
            let listener = &gateway.listeners[at];
            let other = gateway.sockets(listener).into_iter().find(|socket| {
                demands.entry(*socket).or_insert_with(|| listener.clients.clone()) != &listener.clients
            });
            if let Some(socket) = other {
                let message = format!("another Gateway uses {socket} with other client certificates");
                gateway.listeners[at].refused = Some(Problem { reason: "PortUnavailable", message });
            }
        }
    }
}

// === impl ServedGateway ===

impl ServedGateway {
    fn new(observed: &RoutingInputs, ports: &Ports, gateway: &Arc<Gateway>) -> Self {
        let key = Key::of(gateway.as_ref());
        let sets: Vec<_> = sets_of(observed, &key)
            .into_iter()
            .map(|set| ServedSet {
                key: Key::of(set.as_ref()),
                allowed: allows_set(observed, gateway, &set),
                set,
            })
            .collect();
        let place = ports.places.get(&key).cloned().unwrap_or_default();
        let mut resolver = Resolver {
            observed,
            ports,
            gateway,
            addresses: &place.sockets,
            secrets: ListenerSecrets::default(),
            listeners: Vec::new(),
        };
        for listener in &gateway.spec.listeners {
            resolver.add(
                listener,
                Referrer { kind: "Gateway", namespace: Namespace::of(&gateway.metadata) },
                None,
            );
        }
        for set in sets.iter().filter(|set| set.allowed) {
            let referrer = Referrer { kind: "ListenerSet", namespace: Namespace::of(&set.set.metadata) };
            for listener in &set.set.spec.listeners {
                resolver.add(listener, referrer, Some(&set.key));
            }
        }
        let listeners = resolver.listeners;
        // A problem with it concerns back ends with TLS only, so it refuses no listener.
        let client_certificate = client_certificates::of_backend(observed, gateway);
        let refused = place.refused.clone();
        Self { gateway: gateway.clone(), key, refused, place, listeners, sets, client_certificate }
    }

    /// The port of a listener, if it is served.
    fn port(&self, listener: &Listener) -> Option<u16> {
        u16::try_from(listener.port).ok().filter(|_| self.refused.is_none() && listener.is_programmed())
    }

    /// Returns the sockets of this process for a listener that is served.
    pub(crate) fn sockets(&self, listener: &Listener) -> Vec<SocketAddr> {
        self.port(listener).map(|port| self.sockets_of(port).collect()).unwrap_or_default()
    }

    /// Returns the sockets of this process with the port of a listener, whether it is served or not.
    pub(crate) fn asked_sockets(&self, listener: &Listener) -> impl Iterator<Item = SocketAddr> {
        u16::try_from(listener.port).into_iter().flat_map(|port| self.sockets_of(port))
    }

    fn sockets_of(&self, port: u16) -> impl Iterator<Item = SocketAddr> {
        self.place.sockets.iter().map(move |address| SocketAddr::new(*address, port))
    }

    /// Returns address and port where clients reach a listener that is served.
    pub(crate) fn client_addresses(&self, listener: &Listener) -> Vec<String> {
        let shown = |port| {
            let addresses = self.place.addresses.iter();
            addresses.map(move |address| match address.value.parse::<IpAddr>() {
                Ok(ip) => SocketAddr::new(ip, port).to_string(),
                Err(_) => format!("{}:{port}", address.value),
            })
        };
        self.port(listener).map(|port| shown(port).collect()).unwrap_or_default()
    }

    /// Returns the listeners that the Gateway itself has (`None`), or that a ListenerSet adds.
    pub(crate) fn listeners_of<'a>(&'a self, set: Option<&'a Key>) -> impl Iterator<Item = &'a Listener> {
        self.listeners.iter().filter(move |listener| listener.set.as_ref() == set)
    }
}

struct Resolver<'a> {
    observed: &'a RoutingInputs,
    ports: &'a Ports,
    gateway: &'a Gateway,
    addresses: &'a [IpAddr],
    secrets: ListenerSecrets,
    listeners: Vec<Listener>,
}

// === impl Resolver ===

impl Resolver<'_> {
    /// Adds a listener. Of conflicting listeners the first keeps its port and host name.
    fn add(&mut self, spec: &ListenerSpec, referrer: Referrer<'_>, set: Option<&Key>) {
        let protocol = protocol(spec);
        let host = spec.hostname.as_deref().filter(|host| !host.is_empty()).map(str::to_ascii_lowercase);
        let conflict = self.conflict(spec.port, protocol, host.as_deref());
        let refused = match (&conflict, protocol) {
            (Some(conflict), _) => Some(conflict.clone()),
            (None, None) => Some(Problem {
                reason: "UnsupportedProtocol",
                message: format!("this gateway does not serve protocol {}: use HTTP or HTTPS", spec.protocol),
            }),
            // A gateway that ignored a filter would let in whom the filter refuses.
            _ if spec.filters.is_some() => Some(Problem {
                reason: UNSUPPORTED_VALUE,
                message: "this gateway does not support filters of a listener: remove the field".into(),
            }),
            (None, Some(protocol)) => self.ports.problem(self.addresses, spec.port, protocol),
        };
        let (kinds, unknown) = kinds(spec, protocol);
        let (certificates, uncertified) = match protocol {
            Some(Protocol::Https) => self.certificates(spec, referrer),
            _ => (Vec::new(), None),
        };
        let clients = match protocol {
            Some(Protocol::Https) => client_certificates::demand(self.observed, self.gateway, spec.port),
            _ => ClientDemand::default(),
        };
        self.listeners.push(Listener {
            set: set.cloned(),
            name: spec.name.clone(),
            port: spec.port,
            host,
            protocol,
            kinds,
            allowed: spec.allowed_routes.clone(),
            refused: refused.or(clients.refused),
            conflict,
            unresolved: unknown.or(uncertified).or(clients.unresolved),
            certificates,
            clients: clients.certificates,
        });
    }

    fn conflict(&self, port: i32, protocol: Option<Protocol>, host: Option<&str>) -> Option<Problem> {
        let others = || self.listeners.iter().filter(|other| other.port == port && other.refused.is_none());
        if let Some(other) = others().find(|other| other.protocol != protocol) {
            let message = format!("listener {} uses port {port} with another protocol", other.name);
            return Some(Problem { reason: "ProtocolConflict", message });
        }
        let other = others().find(|other| other.host.as_deref() == host)?;
        let message = format!("listener {} has the same port and hostname", other.name);
        Some(Problem { reason: "HostnameConflict", message })
    }

    /// Returns the certificates of a listener that can be used, and why one cannot.
    fn certificates(
        &mut self,
        spec: &ListenerSpec,
        referrer: Referrer<'_>,
    ) -> (Vec<ServerCertificate>, Option<Problem>) {
        let invalid = |message| Problem { reason: certificates::INVALID, message };
        let tls = spec.tls.clone().unwrap_or_default();
        if !terminates(&tls) {
            return (
                Vec::new(),
                Some(invalid("an HTTPS listener must terminate TLS: set tls.mode to Terminate".into())),
            );
        }
        let (mut found, mut problem) = (Vec::new(), None);
        if tls.certificate_refs.is_empty() {
            problem = Some(invalid("the listener has no tls.certificateRefs".into()));
        }
        for reference in &tls.certificate_refs {
            let added = self.secrets.add(self.observed, referrer, reference);
            match added.and_then(|()| certificates::pair(self.observed, referrer, reference)) {
                Ok(usable) => {
                    found.push(usable.certificate);
                    problem = problem.or(usable.problem);
                }
                Err(error) => problem = problem.or(Some(error)),
            }
        }
        (found, problem)
    }
}

/// Returns the kinds of routes that a listener accepts and this gateway serves, and why others cannot attach.
fn kinds(spec: &ListenerSpec, protocol: Option<Protocol>) -> (Vec<RouteGroupKind>, Option<Problem>) {
    if protocol.is_none() {
        return (Vec::new(), None);
    }
    let http = RouteGroupKind { group: Some(GATEWAY_GROUP.into()), kind: "HTTPRoute".into() };
    let Some(allowed) = spec.allowed_routes.as_ref().filter(|allowed| !allowed.kinds.is_empty()) else {
        return (vec![http], None);
    };
    let is_http = |kind: &RouteGroupKind| {
        kind.kind == http.kind && kind.group.as_deref().unwrap_or(GATEWAY_GROUP) == GATEWAY_GROUP
    };
    let problem = allowed.kinds.iter().find(|kind| !is_http(kind)).map(|kind| Problem {
        reason: "InvalidRouteKinds",
        message: format!("routes of kind {} are not supported: use HTTPRoute", kind.kind),
    });
    let supported = allowed.kinds.iter().any(is_http);
    (supported.then_some(http).into_iter().collect(), problem)
}

// === impl Listener ===

impl Listener {
    /// Whether requests can arrive on it.
    pub(crate) fn is_programmed(&self) -> bool {
        self.unserved().is_none()
    }

    /// Why no request can arrive on it: it is not accepted, or it has no certificate that can be used.
    pub(crate) fn unserved(&self) -> Option<&Problem> {
        let lacks_certificate = self.protocol == Some(Protocol::Https) && self.certificates.is_empty();
        self.refused.as_ref().or(self.unresolved.as_ref().filter(|_| lacks_certificate))
    }
}
