//! The routing tables. They are compiled from the objects in advance, so that requests need no lookups in them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
};

use arc_swap::ArcSwap;
use longboat_api::v1alpha2::LLMInferenceService;
use longboat_tls::{KeyPair, ServerCertificate};
use tokio_util::sync::CancellationToken;

use crate::{
    RoutingInputs,
    keys::{KeyTable, KeyedServices},
    model_directory::{Directory, PublishedService},
    ports::Ports,
    resolved::{Resolved, ResolvedRoute},
    route::{BackendResolver, Entrance, Entry, Rule, Table},
    scalable::{ScalableBackend, ScalableWorkloads},
};

/// The current routing tables, which are replaced as a whole.
pub(crate) type SharedTables = Arc<ArcSwap<Tables>>;

/// The routing tables of all sockets.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    by_socket: BTreeMap<SocketAddr, Table>,
    /// The empty table, for a socket that has just been opened.
    none: Table,
    directory: Directory,
    /// The back ends that may have no endpoint until a scaler starts one.
    scalable: Vec<Arc<ScalableBackend>>,
    keys: KeyTable,
    /// Cancelled when newer tables serve.
    replaced: CancellationToken,
}

/// The current routes of a running gateway.
#[derive(Debug, Clone)]
pub struct Routes(pub(crate) SharedTables);

/// The host names of a route, by socket and host name of the listener. Listeners of several Gateways may share both.
type Places<'a> = BTreeMap<(SocketAddr, Option<&'a str>), BTreeSet<Option<&'a str>>>;

/// Returns where a route is served, by the certificate that its Gateways show to back ends.
fn places<'a>(
    resolved: &'a Resolved,
    route: &'a ResolvedRoute,
) -> Vec<(Option<&'a Arc<KeyPair>>, Places<'a>)> {
    let mut all: Vec<(_, Places<'_>)> = Vec::new();
    for attached in route.listeners() {
        let gateway = &resolved.gateways[attached.gateway];
        let certificate = gateway.client_certificate.as_ref().and_then(|shown| shown.pair.as_ref());
        let listener = &gateway.listeners[attached.listener];
        for socket in gateway.sockets(listener) {
            let at = all.iter().position(|(known, _)| *known == certificate).unwrap_or_else(|| {
                all.push((certificate, Places::new()));
                all.len() - 1
            });
            let hosts = all[at].1.entry((socket, listener.host.as_deref())).or_default();
            if attached.hosts.is_empty() {
                hosts.insert(None);
            }
            hosts.extend(attached.hosts.iter().map(|host| Some(host.as_str())));
        }
    }
    all
}

// === impl Tables ===

impl Tables {
    /// Compiles the tables of all open sockets.
    pub(crate) fn new(observed: &RoutingInputs, ports: &Ports, resolved: &Resolved) -> Self {
        let mut by_socket: BTreeMap<SocketAddr, Table> =
            ports.open().map(|socket| (socket, Table::default())).collect();
        for gateway in &resolved.gateways {
            for listener in &gateway.listeners {
                if let Some(problem) = listener.unserved() {
                    // Not the message of the problem: it names Secrets, and anybody may read the response.
                    let problem = format!(
                        "listener {} of Gateway {} does not serve ({}): the status of the Gateway says more",
                        listener.name, gateway.key, problem.reason
                    );
                    for socket in gateway.asked_sockets(listener) {
                        if let Some(table) = by_socket.get_mut(&socket) {
                            table.unserved(listener.host.as_deref(), problem.clone());
                        }
                    }
                    continue;
                }
                for socket in gateway.sockets(listener) {
                    if let Some(table) = by_socket.get_mut(&socket) {
                        table.listener(listener.host.as_deref(), &listener.certificates);
                        table.clients.clone_from(&listener.clients);
                    }
                }
            }
        }
        let workloads = ScalableWorkloads::new(observed);
        let keyed = KeyedServices::new(observed);
        let mut backends = BackendResolver::new(observed);
        let mut scalable = BTreeMap::new();
        for route in &resolved.routes {
            let places = places(resolved, route);
            if places.is_empty() {
                continue;
            }
            let gateways =
                route.listeners().map(|attached| &resolved.gateways[attached.gateway].gateway.metadata);
            let keyed = keyed.of_route(&route.parsed.route, gateways);
            let spec = &route.parsed.route.spec;
            let rules = spec.rules.iter().zip(&*route.parsed.rules);
            for ((rule, parsed), (certificate, places)) in
                rules.flat_map(|rule| places.iter().map(move |places| (rule, places)))
            {
                let mut compiled = Rule::new(&mut backends, &workloads, &keyed, &route.parsed, rule, parsed);
                if let Some(certificate) = certificate {
                    compiled.present(certificate);
                }
                let compiled = Arc::new(compiled);
                let of_rule = compiled.backends.iter().filter_map(|backend| backend.scalable.clone());
                scalable.extend(of_rule.map(|backend| (backend.name.clone(), backend)));
                for ((socket, listener), hosts) in places {
                    let Some(table) = by_socket.get_mut(socket) else { continue };
                    let listener = table.listener(*listener, &[]);
                    for (host, matcher) in hosts
                        .iter()
                        .flat_map(|host| parsed.matchers.iter().map(move |matcher| (host, matcher)))
                    {
                        let (matcher, rule) = (matcher.clone(), compiled.clone());
                        listener.add(Entry { host: host.map(ToOwned::to_owned), matcher, rule });
                    }
                }
            }
        }
        // Routes were added in the order of their precedence, which the stable sort keeps among equal matches.
        by_socket.values_mut().for_each(Table::sort);
        let directory = Directory::new(observed.inference.iter().map(AsRef::as_ref));
        Self {
            by_socket,
            none: Table::default(),
            directory,
            scalable: scalable.into_values().collect(),
            keys: KeyTable::new(&observed.api_keys),
            replaced: CancellationToken::new(),
        }
    }

    /// Makes these tables the current ones. Requests that wait for a change look at them.
    pub(crate) fn replace(self, current: &ArcSwap<Self>) {
        // Cancelled after the swap, so that whoever is woken finds the new tables.
        current.swap(Arc::new(self)).replaced.cancel();
    }

    /// Waits until newer tables serve.
    pub(crate) async fn replaced(&self) {
        self.replaced.cancelled().await;
    }

    /// The API keys.
    pub(crate) fn keys(&self) -> &KeyTable {
        &self.keys
    }

    /// The back ends that may have no endpoint until a scaler starts one.
    pub(crate) fn scalable(&self) -> &[Arc<ScalableBackend>] {
        &self.scalable
    }

    /// Returns the table of a socket.
    pub(crate) fn on(&self, socket: SocketAddr) -> &Table {
        self.by_socket.get(&socket).unwrap_or(&self.none)
    }

    /// Returns the directory of services, for requests that no route matches.
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }

    /// Returns the certificates for a TLS client that asks for this name, the best first.
    pub(crate) fn certificates(&self, socket: SocketAddr, name: Option<&str>) -> Vec<ServerCertificate> {
        self.on(socket).certificates(name)
    }

    /// Returns a POST request that a route of the service sends to `api`, a path such as `/v1/chat/completions`. Prefers the
    /// request that the URL of the service describes.
    pub(crate) fn entrance(&self, service: &PublishedService, api: &str) -> Option<Entrance> {
        let stated = service.url.as_ref().and_then(http::Uri::port_u16);
        let mut sockets: Vec<_> = self.by_socket.iter().collect();
        // Without TLS first, because clients need no certificate for it. The sort is stable.
        sockets.sort_by_key(|(socket, table)| (table.is_tls(), Some(socket.port()) != stated));
        sockets.into_iter().find_map(|(socket, table)| table.entrance(*socket, service, api))
    }
}

// === impl Routes ===

impl Routes {
    /// Returns a POST request that a route of the service sends to `api`, a path such as `/v1/chat/completions`.
    pub fn entrance(&self, service: &LLMInferenceService, api: &str) -> Option<Entrance> {
        self.0.load().entrance(&PublishedService::new(service), api)
    }
}
