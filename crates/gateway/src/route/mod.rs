//! The routing table. It is compiled from the objects in advance, so that requests need no lookups in them.

mod backend;
mod duration;
mod entrance;
mod filter;
mod matching;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use longboat_accept::host_matches;
use longboat_api::foreign::httproute::{HTTPRoute, HTTPRouteRule};
use longboat_key::{Key, Namespace};

pub use self::entrance::{Entrance, Routes};
pub(crate) use self::{
    backend::{Backend, BackendError, POOL_GROUP, Pool, picker_missing},
    filter::{Filters, Redirect},
    matching::Matcher,
};
use crate::{
    RoutingInputs,
    attach::{Attachment, attach},
    front::Directory,
    ports::Ports,
};

/// The routing tables of all ports.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    by_port: BTreeMap<u16, Table>,
    /// The empty table, for a port that has just been opened.
    none: Table,
    directory: Directory,
}

/// All rules of a port in the order in which they are tried: the most specific first.
#[derive(Debug, Default)]
pub(crate) struct Table {
    entries: Vec<Entry>,
}

/// One entry of `matches` for one host name of its route, because the precedence of a route depends on the host name that
/// matches.
#[derive(Debug)]
struct Entry {
    /// `None` for any host.
    host: Option<String>,
    matcher: Arc<Matcher>,
    rule: Arc<Rule>,
}

/// How to handle requests that match.
#[derive(Debug, PartialEq)]
pub(crate) struct Rule {
    pub(crate) route: Key,
    pub(crate) filters: Filters,
    pub(crate) backends: Vec<Weighted>,
    /// Timeout of the whole exchange.
    pub(crate) request_timeout: Option<Duration>,
    /// Timeout until a back end begins to answer.
    pub(crate) backend_timeout: Option<Duration>,
}

/// A back end with its weight.
#[derive(Debug, PartialEq)]
pub(crate) struct Weighted {
    pub(crate) weight: u32,
    pub(crate) backend: Result<Backend, BackendError>,
    pub(crate) filters: Filters,
}

/// A matching rule, and the path prefix that a rewrite may replace.
#[derive(Debug)]
pub(crate) struct RouteMatch {
    pub(crate) rule: Arc<Rule>,
    pub(crate) prefix: Option<String>,
}

// === impl Tables ===

impl Tables {
    /// Compiles the tables of these ports.
    pub(crate) fn new(observed: &RoutingInputs, ports: &Ports) -> Self {
        let table = |port: &u16| (*port, Table::new(observed, &Ports::only(ports.address, *port)));
        Self {
            by_port: ports.open.iter().map(table).collect(),
            none: Table::default(),
            directory: Directory::new(observed.inference.iter().map(AsRef::as_ref)),
        }
    }

    /// Returns the table of a port.
    pub(crate) fn on(&self, port: u16) -> &Table {
        self.by_port.get(&port).unwrap_or(&self.none)
    }

    /// Returns the directory of services, for requests that no route matches.
    pub(crate) fn directory(&self) -> &Directory {
        &self.directory
    }
}

// === impl Table ===

impl Table {
    /// Compiles every route that is attached to a listener on one of these ports.
    pub(crate) fn new(observed: &RoutingInputs, ports: &Ports) -> Self {
        let mut entries = Vec::new();
        let mut routes: Vec<_> = observed.routes.iter().collect();
        // Among equal matches the oldest route wins, then the first by name.
        routes.sort_by_cached_key(|route| {
            (route.metadata.creation_timestamp.as_ref().map(|time| time.0), Key::of(route.as_ref()))
        });
        for route in routes {
            let mut hosts = Vec::new();
            for parent in &route.spec.parent_refs {
                if let Attachment::Attached(listeners) = attach(observed, ports, route, parent) {
                    hosts.extend(listeners.into_iter().map(|(_, hosts)| hosts));
                }
            }
            if hosts.is_empty() || !unsupported(route).is_empty() {
                continue;
            }
            // A listener without host names accepts all host names.
            let hosts: Vec<_> = if hosts.iter().any(Vec::is_empty) {
                vec![None]
            } else {
                hosts.concat().into_iter().map(Some).collect()
            };
            for rule in &route.spec.rules {
                let compiled = Arc::new(Rule::new(observed, route, rule));
                let anything = [longboat_api::foreign::httproute::HTTPRouteMatch::default()];
                let wanted = if rule.matches.is_empty() { &anything[..] } else { &rule.matches[..] };
                for matching in wanted {
                    let matcher = Arc::new(Matcher::new(matching));
                    entries.extend(hosts.iter().map(|host| Entry {
                        host: host.clone(),
                        matcher: matcher.clone(),
                        rule: compiled.clone(),
                    }));
                }
            }
        }
        // The sort is stable: equally specific entries keep the order above.
        entries.sort_by(|a, b| {
            host_rank(b.host.as_deref())
                .cmp(&host_rank(a.host.as_deref()))
                .then_with(|| b.matcher.rank().cmp(&a.matcher.rank()))
        });
        Self { entries }
    }

    /// Whether a route has this host name.
    pub(crate) fn names_host(&self, host: &str) -> bool {
        self.entries.iter().filter_map(|entry| entry.host.as_ref()).any(|pattern| host_matches(pattern, host))
    }

    /// Finds the rule for a request.
    pub(crate) fn find(&self, head: &http::request::Parts) -> Option<RouteMatch> {
        let host = host(head);
        let entry = self.entries.iter().find(|entry| {
            entry.host.as_ref().is_none_or(|pattern| host_matches(pattern, host))
                && entry.matcher.matches(head)
        })?;
        Some(RouteMatch { rule: entry.rule.clone(), prefix: entry.matcher.prefix().map(Into::into) })
    }
}

/// The precedence of a host name: an exact one comes before a wildcard, and a longer one before a shorter one.
fn host_rank(host: Option<&str>) -> (bool, usize) {
    host.map_or((false, 0), |host| (!host.starts_with('*'), host.len()))
}

fn host(head: &http::request::Parts) -> &str {
    let header = || head.headers.get(http::header::HOST).and_then(|host| host.to_str().ok());
    let authority = head.uri.host().or_else(header).unwrap_or_default();
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

// === impl Rule ===

impl Rule {
    fn new(observed: &RoutingInputs, route: &HTTPRoute, rule: &HTTPRouteRule) -> Self {
        let namespace = route.metadata.namespace.clone().unwrap_or_default();
        let timeout = |text: Option<&String>| {
            text.and_then(|text| duration::parse(text)).filter(|time| !time.is_zero())
        };
        let timeouts = rule.timeouts.clone().unwrap_or_default();
        Self {
            route: Key::of(route),
            filters: Filters::new(&rule.filters),
            backends: rule
                .backend_refs
                .iter()
                .map(|reference| Weighted {
                    weight: reference.weight.map_or(1, |weight| u32::try_from(weight).unwrap_or(0)),
                    backend: Backend::resolve(observed, Namespace(&namespace), &reference.backend),
                    filters: Filters::new(&reference.filters),
                })
                .collect(),
            request_timeout: timeout(timeouts.request.as_ref()),
            backend_timeout: timeout(timeouts.backend_request.as_ref()),
        }
    }

    /// Chooses a back end by weight. `pick` gets the total of all weights and returns a number below it.
    pub(crate) fn choose(&self, pick: impl FnOnce(u32) -> u32) -> Option<&Weighted> {
        let total = self.backends.iter().map(|backend| backend.weight).sum();
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

/// Returns the fields of a route that this gateway does not implement, by path. Such a route is refused as a whole, because
/// ignoring the fields would silently be wrong.
pub(crate) fn unsupported(route: &HTTPRoute) -> Vec<String> {
    let mut fields = Vec::new();
    for (index, rule) in route.spec.rules.iter().enumerate() {
        let at = format!("spec.rules[{index}]");
        if rule.retry.is_some() {
            fields.push(format!("{at}.retry"));
        }
        if rule.session_persistence.is_some() {
            fields.push(format!("{at}.sessionPersistence"));
        }
        for (name, text) in [
            ("request", rule.timeouts.as_ref().and_then(|timeouts| timeouts.request.as_ref())),
            ("backendRequest", rule.timeouts.as_ref().and_then(|timeouts| timeouts.backend_request.as_ref())),
        ] {
            if text.is_some_and(|text| duration::parse(text).is_none()) {
                fields.push(format!("{at}.timeouts.{name}"));
            }
        }
        fields.extend(filter::unsupported(&rule.filters, &at));
        for (number, backend) in rule.backend_refs.iter().enumerate() {
            fields.extend(filter::unsupported(&backend.filters, &format!("{at}.backendRefs[{number}]")));
        }
        for (number, matching) in rule.matches.iter().enumerate() {
            fields.extend(matching::unsupported(matching, &format!("{at}.matches[{number}]")));
        }
    }
    fields
}

/// Returns the back ends of a route that cannot be resolved, without duplicates.
pub(crate) fn unresolved(observed: &RoutingInputs, route: &HTTPRoute) -> BTreeMap<&'static str, Vec<String>> {
    let namespace = route.metadata.namespace.clone().unwrap_or_default();
    let mut found: BTreeMap<&'static str, Vec<String>> = BTreeMap::new();
    for reference in route.spec.rules.iter().flat_map(|rule| &rule.backend_refs) {
        if let Err(reason) = Backend::resolve(observed, Namespace(&namespace), &reference.backend) {
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
