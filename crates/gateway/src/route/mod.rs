//! The routing tables. They are compiled from the objects in advance, so that requests need no lookups in them.

mod backend;
mod cors;
mod duration;
mod entrance;
mod filter;
mod matching;
mod parsed;
mod retry;
mod table;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use longboat_api::foreign::{
    httproute::{HTTPRoute, HTTPRouteRule},
    httproute_filter::HTTPRouteFilter,
};
use longboat_key::{Key, Namespace};
use longboat_tls::ServerCertificate;
use tokio_util::sync::CancellationToken;

pub use self::entrance::{Entrance, Routes};
pub(crate) use self::{
    backend::{
        Backend, BackendError, Link, POOL_GROUP, Pool, ServiceBackend, picker_missing, pool_keys, service_key,
    },
    cors::Cors,
    filter::{Filters, Redirect},
    parsed::{ParsedRoute, RouteParser},
    retry::Retry,
    table::{RouteMatch, Table},
};
use self::{filter::MirrorSpec, parsed::ParsedRule, table::Entry};
use crate::{
    RoutingInputs,
    front::Directory,
    keys::{KeyScope, KeyTable, KeyedRoute, KeyedServices},
    ports::Ports,
    resolved::Resolved,
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

/// How to handle requests that match.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) route: Key,
    pub(crate) filters: Arc<Filters>,
    pub(crate) mirrors: Vec<Mirror>,
    pub(crate) backends: Vec<Weighted>,
    /// Timeout of the whole exchange.
    pub(crate) request_timeout: Option<Duration>,
    pub(crate) attempts: Attempts,
}

/// How often and how long back ends are tried.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Attempts {
    /// Timeout until a back end begins to answer.
    pub(crate) timeout: Option<Duration>,
    pub(crate) retry: Option<Retry>,
}

/// A back end with its weight.
#[derive(Debug)]
pub(crate) struct Weighted {
    pub(crate) weight: u32,
    pub(crate) backend: Result<Backend, BackendError>,
    /// Set if a scaler may take all endpoints away.
    pub(crate) scalable: Option<Arc<ScalableBackend>>,
    /// Whose API keys its requests need, if they need any.
    pub(crate) key_scope: Option<Arc<KeyScope>>,
    pub(crate) filters: Arc<Filters>,
    pub(crate) mirrors: Vec<Mirror>,
}

/// A back end that gets copies of requests.
#[derive(Debug)]
pub(crate) struct Mirror {
    pub(crate) backend: Backend,
    /// The share of the requests, as numerator and denominator.
    pub(crate) share: (u32, u32),
}

// === impl Tables ===

impl Tables {
    /// Compiles the tables of all open sockets.
    pub(crate) fn new(observed: &RoutingInputs, ports: &Ports, resolved: &Resolved) -> Self {
        let mut by_socket: BTreeMap<SocketAddr, Table> =
            ports.open().map(|socket| (socket, Table::default())).collect();
        for gateway in &resolved.gateways {
            for listener in &gateway.listeners {
                for socket in gateway.sockets(listener) {
                    if let Some(table) = by_socket.get_mut(&socket) {
                        table.listener(listener.host.as_deref(), &listener.certificates);
                    }
                }
            }
        }
        let workloads = ScalableWorkloads::new(observed);
        let keyed = KeyedServices::new(observed);
        let mut scalable = BTreeMap::new();
        for route in &resolved.routes {
            // Listeners of several Gateways may share a socket and a host name.
            let mut places: BTreeMap<(SocketAddr, Option<&str>), BTreeSet<Option<&str>>> = BTreeMap::new();
            for attached in route.listeners() {
                let gateway = &resolved.gateways[attached.gateway];
                let listener = &gateway.listeners[attached.listener];
                for socket in gateway.sockets(listener) {
                    let hosts = places.entry((socket, listener.host.as_deref())).or_default();
                    if attached.hosts.is_empty() {
                        hosts.insert(None);
                    }
                    hosts.extend(attached.hosts.iter().map(|host| Some(host.as_str())));
                }
            }
            if places.is_empty() {
                continue;
            }
            let gateways =
                route.listeners().map(|attached| &resolved.gateways[attached.gateway].gateway.metadata);
            let keyed = keyed.of_route(&route.parsed.route, gateways);
            let spec = &route.parsed.route.spec;
            for (rule, parsed) in spec.rules.iter().zip(&route.parsed.rules) {
                let compiled = Arc::new(Rule::new(observed, &workloads, &keyed, &route.parsed, rule, parsed));
                let of_rule = compiled.backends.iter().filter_map(|backend| backend.scalable.clone());
                scalable.extend(of_rule.map(|backend| (backend.name.clone(), backend)));
                for ((socket, listener), hosts) in &places {
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

    /// Returns the certificate for a TLS client that asks for this name.
    pub(crate) fn certificate(&self, socket: SocketAddr, name: Option<&str>) -> Option<ServerCertificate> {
        self.on(socket).certificate(name)
    }
}

// === impl Rule ===

impl Rule {
    fn new(
        observed: &RoutingInputs,
        workloads: &ScalableWorkloads,
        keyed: &KeyedRoute<'_>,
        route: &ParsedRoute,
        rule: &HTTPRouteRule,
        parsed: &ParsedRule,
    ) -> Self {
        let namespace = route.key.namespace.as_deref();
        let weighted = rule.backend_refs.iter().zip(&parsed.backend_filters);
        Self {
            route: route.key.clone(),
            filters: parsed.filters.clone(),
            mirrors: mirrors(observed, namespace, &rule.filters),
            backends: weighted
                .map(|(reference, filters)| Weighted {
                    weight: reference.weight.map_or(1, |weight| u32::try_from(weight).unwrap_or(0)),
                    backend: Backend::resolve(observed, namespace, &reference.backend),
                    scalable: workloads.behind(observed, namespace, &reference.backend),
                    key_scope: keyed.scope(observed, namespace, &reference.backend).map(Arc::new),
                    filters: filters.clone(),
                    mirrors: mirrors(observed, namespace, &reference.filters),
                })
                .collect(),
            request_timeout: parsed.request_timeout,
            attempts: Attempts { timeout: parsed.backend_timeout, retry: parsed.retry.clone() },
        }
    }

    /// Chooses a back end by weight. `pick` gets the total of all weights and returns a number below it.
    pub(crate) fn choose(&self, pick: impl FnOnce(u32) -> u32) -> Option<&Weighted> {
        // The API limits weights, but only where its definition is the one that limits them.
        let total = self.backends.iter().fold(0_u32, |total, backend| total.saturating_add(backend.weight));
        if total == 0 {
            return None;
        }
        let mut left = pick(total);
        self.backends.iter().find(|backend| match left.checked_sub(backend.weight) {
            None => true,
            Some(rest) => {
                left = rest;
                false
            }
        })
    }
}

// === impl RouteMatch ===

impl RouteMatch {
    /// Returns whose API keys the request needs, if it needs one.
    pub(crate) fn key_scope(&self, pick: u32) -> Option<&KeyScope> {
        self.rule.choose(|total| pick % total)?.key_scope.as_deref()
    }

    /// Returns the back end that the request goes to, if it has no endpoint until a scaler starts one.
    pub(crate) fn idle(&self, pick: u32) -> Option<Arc<ScalableBackend>> {
        let chosen = self.rule.choose(|total| pick % total)?;
        if self.rule.filters.redirect.is_some() || chosen.filters.redirect.is_some() {
            return None;
        }
        chosen.scalable.clone().filter(|backend| backend.is_idle)
    }
}

/// Returns the back ends that get copies. A back end that cannot be resolved gets none; the route's status says so.
fn mirrors(observed: &RoutingInputs, namespace: Namespace<&str>, filters: &[HTTPRouteFilter]) -> Vec<Mirror> {
    let mirror = |spec: MirrorSpec| {
        let backend = Backend::resolve(observed, namespace, &spec.backend_ref).ok()?;
        Some(Mirror { backend, share: spec.share() })
    };
    filters.iter().filter_map(MirrorSpec::of).filter_map(mirror).collect()
}

/// Returns the back ends of a route that cannot be resolved, without duplicates.
pub(crate) fn unresolved(observed: &RoutingInputs, route: &HTTPRoute) -> BTreeMap<&'static str, Vec<String>> {
    let namespace = route.metadata.namespace.clone().unwrap_or_default();
    let mut found: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    let back_ends = route.spec.rules.iter().flat_map(|rule| &rule.backend_refs);
    let filters = route.spec.rules.iter().flat_map(|rule| &rule.filters);
    let filters = filters.chain(back_ends.clone().flat_map(|reference| &reference.filters));
    let copies = filters.filter_map(MirrorSpec::of).map(|spec| spec.backend_ref);
    for reference in back_ends.map(|reference| reference.backend.clone()).chain(copies) {
        if let Err(reason) = Backend::resolve(observed, Namespace(&namespace), &reference) {
            let messages = found.entry(reason.reason).or_default();
            if !messages.contains(&reason.message) {
                messages.push(reason.message);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests;
