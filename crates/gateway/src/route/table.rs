//! The routing table of one socket: listeners by host name, routes by host name, rules by path.

use std::{collections::HashMap, sync::Arc};

use http::{Method, header, request::Parts};
use longboat_tls::{ClientCertificates, ServerCertificate};

use super::{
    backend::{Backend, Pool},
    matching::{Matcher, Path},
    rule::Rule,
};
use crate::{keys::KeyScope, scalable::ScalableBackend};

/// The listeners of a socket, with the rules of the routes that are attached to them. A request goes to the listener with the
/// most specific host name, and there to the most specific rule.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// Which certificates clients need.
    pub(crate) clients: ClientCertificates,
    listeners: HostIndex<TableListener>,
    /// What is wrong with listeners that cannot serve. Connections from a time when they could may still be open.
    unserved: HostIndex<String>,
}

/// All listeners of a socket with the same host name.
#[derive(Debug, Default)]
pub(crate) struct TableListener {
    certificates: Vec<ServerCertificate>,
    routes: HostIndex<PathIndex>,
}

/// One entry of `matches` for one host name of its route, because the precedence of a route depends on the host name that
/// matches.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// `None` for any host.
    pub(crate) host: Option<String>,
    pub(crate) matcher: Arc<Matcher>,
    pub(crate) rule: Arc<Rule>,
}

/// A matching rule, and the path prefix that a rewrite may replace.
#[derive(Debug)]
pub(crate) struct RouteMatch {
    pub(crate) rule: Arc<Rule>,
    pub(crate) prefix: Option<String>,
}

/// Why a request cannot be answered on its connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Misdirection<'a> {
    /// The connection is for another listener.
    OtherListener,
    /// The listener of the connection, or of the request, cannot serve, for this reason.
    Unserved(&'a str),
}

/// Values by host name. Looking one up takes one step for each label of the name.
#[derive(Debug)]
struct HostIndex<T> {
    exact: HashMap<String, T>,
    /// By the part after the star, such as `.example.com`.
    wildcard: HashMap<String, T>,
    longest_wildcard: usize,
    any: Option<T>,
}

/// Entries by path. Looking one up takes one step for each segment of the path.
#[derive(Debug, Default)]
struct PathIndex {
    exact: HashMap<String, Vec<Entry>>,
    /// Without the slash at the end.
    prefix: HashMap<String, Vec<Entry>>,
    longest_prefix: usize,
}

/// The suffixes of a host name that a wildcard may have, the longest first. A wildcard stands for one or more whole labels, so a suffix
/// begins at a dot, and not at the start. Suffixes that are longer than each wildcard are left out: to hash those of a long name would
/// take time that is quadratic in what a client sends.
fn suffixes(host: &str, longest: usize) -> impl Iterator<Item = &str> {
    let dots = host.match_indices('.').map(|(at, _)| at);
    dots.filter(move |at| *at > 0 && host.len() - at <= longest).map(|at| &host[at..])
}

/// The paths above a path, and the path itself, the longest first. The bound is there for the same reason.
fn prefixes(path: &str, longest: usize) -> impl Iterator<Item = &str> {
    let ends = std::iter::once(path.len()).chain(path.rmatch_indices('/').map(|(at, _)| at));
    ends.filter(move |end| *end <= longest).map(|end| &path[..end])
}

/// Returns the method of the request that a page means to send, if this one is its preflight.
fn preflighted_method(head: &Parts) -> Option<Method> {
    if head.method != Method::OPTIONS || !head.headers.contains_key(header::ORIGIN) {
        return None;
    }
    Method::from_bytes(head.headers.get(header::ACCESS_CONTROL_REQUEST_METHOD)?.as_bytes()).ok()
}

/// Returns the name of the host to which a request is sent, in lower case and without the port.
pub(super) fn host(head: &Parts) -> String {
    let header = || head.headers.get(http::header::HOST).and_then(|host| host.to_str().ok());
    let authority =
        head.uri.authority().map(http::uri::Authority::as_str).or_else(header).unwrap_or_default();
    let name = match authority.find(']') {
        Some(end) => &authority[..=end],
        None => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    name.to_ascii_lowercase()
}

// === impl Table ===

impl Table {
    /// Adds a listener, or more certificates to one with the same host name.
    pub(crate) fn listener(
        &mut self,
        host: Option<&str>,
        certificates: &[ServerCertificate],
    ) -> &mut TableListener {
        let listener = self.listeners.entry(host);
        listener.certificates.extend_from_slice(certificates);
        listener
    }

    /// Adds a listener that cannot serve, and what is wrong with it.
    pub(crate) fn unserved(&mut self, host: Option<&str>, problem: String) {
        *self.unserved.entry(host) = problem;
    }

    /// Sorts the entries of every path. The sort is stable: equally specific entries keep the order in which they were added.
    pub(crate) fn sort(&mut self) {
        for path in self.listeners.values_mut().flat_map(|listener| listener.routes.values_mut()) {
            for entries in path.exact.values_mut().chain(path.prefix.values_mut()) {
                entries.sort_by_key(|entry| std::cmp::Reverse(entry.matcher.rank()));
                entries.shrink_to_fit();
            }
        }
    }

    /// All entries.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        let paths = self.listeners.values().flat_map(|listener| listener.routes.values());
        paths.flat_map(|path| path.exact.values().chain(path.prefix.values()).flatten())
    }

    /// Whether connections are encrypted.
    pub(crate) fn is_tls(&self) -> bool {
        self.listeners.values().any(|listener| !listener.certificates.is_empty())
    }

    /// Whether a listener or a route has this host name.
    pub(crate) fn names_host(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let named = |listener: &TableListener| listener.routes.named(&host).next().is_some();
        self.listeners.named(&host).next().is_some()
            || self.unserved.named(&host).next().is_some()
            || self.listeners.first(&host).is_some_and(named)
    }

    /// Returns the certificates for a client that asks for this name, the best first: those that have the name, those with a wildcard
    /// for it, and the others.
    pub(crate) fn certificates(&self, name: Option<&str>) -> Vec<ServerCertificate> {
        let name = name.unwrap_or_default().to_ascii_lowercase();
        let mut all =
            self.listeners.first(&name).map(|listener| listener.certificates.clone()).unwrap_or_default();
        // With one, which is usual, nothing has to be read.
        if all.len() > 1 {
            all.sort_by_cached_key(|certificate| (!certificate.names(&name), !certificate.covers(&name)));
        }
        all
    }

    /// Checks that the listener for the host of a request is the listener for the name in its TLS handshake. A client may send
    /// requests for several hosts on one connection (RFC 9110 §7.4).
    pub(crate) fn directed(&self, server_name: &str, head: &Parts) -> Result<(), Misdirection<'_>> {
        let host = host(head);
        let (of_name, of_host) = (self.listeners.first(server_name), self.listeners.first(&host));
        match (of_name, of_host) {
            (Some(of_name), Some(of_host)) if std::ptr::eq(of_name, of_host) => return Ok(()),
            (Some(_), Some(_)) => return Err(Misdirection::OtherListener),
            _ => {}
        }
        let unserved = [(server_name, of_name), (&host, of_host)]
            .into_iter()
            .filter(|(_, listener)| listener.is_none())
            .find_map(|(name, _)| self.unserved.first(name));
        Err(unserved.map_or(Misdirection::OtherListener, |problem| Misdirection::Unserved(problem)))
    }

    /// Finds the rule for a request. A preflight also goes to a rule with a CORS filter that takes the request which the page means to
    /// send. Its headers are not known yet.
    pub(crate) fn find(&self, head: &Parts) -> Option<RouteMatch> {
        let host = host(head);
        let listener = self.listeners.first(&host)?;
        let preflighted = preflighted_method(head);
        let matches = |entry: &Entry| {
            let method = preflighted.as_ref().filter(|_| entry.rule.filters.cors.is_some());
            entry.matcher.matches(head) || method.is_some_and(|method| entry.matcher.accepts(head, method))
        };
        let entry = listener.routes.all(&host).find_map(|path| path.find(head.uri.path(), matches))?;
        Some(RouteMatch { rule: entry.rule.clone(), prefix: entry.matcher.prefix().map(Into::into) })
    }
}

// === impl TableListener ===

impl TableListener {
    pub(crate) fn add(&mut self, entry: Entry) {
        let index = self.routes.entry(entry.host.as_deref());
        let (map, path) = match &entry.matcher.path {
            Path::Exact(path) => (&mut index.exact, path),
            Path::Prefix(path) => {
                index.longest_prefix = index.longest_prefix.max(path.len());
                (&mut index.prefix, path)
            }
        };
        map.entry(path.clone()).or_default().push(entry);
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

    /// Returns the pool that the request goes to, and the head that its picker gets.
    pub(crate) fn pool(&self, pick: u32, head: &Parts) -> Option<(&Pool, Parts)> {
        let chosen = self.rule.choose(|total| pick % total)?;
        let Ok(Backend::Pool(pool)) = &chosen.backend else { return None };
        let mut head = head.clone();
        for filters in [&self.rule.filters, &chosen.filters] {
            filters.apply(&mut head, self.prefix.as_deref());
        }
        Some((pool, head))
    }
}

// === impl HostIndex ===

impl<T> Default for HostIndex<T> {
    fn default() -> Self {
        Self { exact: HashMap::new(), wildcard: HashMap::new(), longest_wildcard: 0, any: None }
    }
}

impl<T: Default> HostIndex<T> {
    fn entry(&mut self, host: Option<&str>) -> &mut T {
        match host {
            None => self.any.get_or_insert_default(),
            Some(host) => match host.strip_prefix('*') {
                Some(suffix) => {
                    self.longest_wildcard = self.longest_wildcard.max(suffix.len());
                    self.wildcard.entry(suffix.to_owned()).or_default()
                }
                None => self.exact.entry(host.to_owned()).or_default(),
            },
        }
    }
}

impl<T> HostIndex<T> {
    fn values(&self) -> impl Iterator<Item = &T> {
        self.exact.values().chain(self.wildcard.values()).chain(&self.any)
    }

    fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.exact.values_mut().chain(self.wildcard.values_mut()).chain(&mut self.any)
    }

    /// The values whose host name covers this host, except that for any host: the exact one, then the longest wildcard.
    fn named<'a>(&'a self, host: &str) -> impl Iterator<Item = &'a T> {
        let suffixes = suffixes(host, self.longest_wildcard);
        self.exact.get(host).into_iter().chain(suffixes.filter_map(|suffix| self.wildcard.get(suffix)))
    }

    /// All values that cover this host, the most specific first.
    fn all<'a>(&'a self, host: &str) -> impl Iterator<Item = &'a T> {
        self.named(host).chain(&self.any)
    }

    fn first<'a>(&'a self, host: &str) -> Option<&'a T> {
        self.all(host).next()
    }
}

// === impl PathIndex ===

impl PathIndex {
    /// Finds the most specific entry: an exact path, then the longest prefix.
    fn find(&self, path: &str, matches: impl Fn(&Entry) -> bool) -> Option<&Entry> {
        let exact = self.exact.get(path).into_iter();
        let prefixes = prefixes(path, self.longest_prefix).filter_map(|prefix| self.prefix.get(prefix));
        exact.chain(prefixes).find_map(|entries| entries.iter().find(|entry| matches(entry)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_longer_than_what_routes_have_is_looked_up() {
        fn all<'a>(found: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
            found.collect()
        }
        assert_eq!(all(suffixes("a.b.c", 4)), [".b.c", ".c"]);
        assert_eq!(all(suffixes(".b.c", 9)), [".c"]);
        assert_eq!(all(suffixes("a.b.c", 2)), [".c"]);
        assert_eq!(all(suffixes("a.b.c", 0)), [""; 0]);
        assert_eq!(all(prefixes("/a/b", 9)), ["/a/b", "/a", ""]);
        assert_eq!(all(prefixes("/a/b", 2)), ["/a", ""]);
        let (dots, slashes) = ("a.".repeat(200_000), "/".repeat(60_000));
        assert_eq!([suffixes(&dots, 12).count(), prefixes(&slashes, 10).count()], [6, 11]);
    }

    #[test]
    fn an_index_knows_its_longest_names() {
        let mut hosts = HostIndex::default();
        for name in [Some("a.example.com"), Some("*.example.com"), Some("*.com"), None] {
            *hosts.entry(name) = name;
        }
        assert_eq!(hosts.longest_wildcard, ".example.com".len());
        let found: Vec<_> = hosts.all("a.example.com").flatten().copied().collect();
        assert_eq!(found, ["a.example.com", "*.example.com", "*.com"]);
    }
}
