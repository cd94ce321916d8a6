//! How a client reaches an API behind a route: the routing table, read from its end. Pure functions.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderName, Method, Request, header, request::Parts, uri::PathAndQuery};
use longboat_key::Key;

use super::{
    backend::Backend,
    filter::{Filters, PathChange},
    matching::{HeaderValue, Matcher, Path},
    rule::{Rule, WeightedBackend},
    table::{Entry, Table},
};
use crate::model_directory::PublishedService;

/// Replaces the star of a wildcard host name, as in the addresses of services.
const WILDCARD: &str = "inference";

/// A request that a route sends to an API.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entrance {
    /// The address and port of the gateway.
    pub socket: SocketAddr,
    /// Whether the connection is encrypted.
    pub is_secure: bool,
    /// The host that the route requires, if it requires one.
    pub host: Option<String>,
    /// The path and query.
    pub path: String,
    /// The headers that the route requires.
    pub headers: Vec<(String, String)>,
    /// Whether the request needs an API key.
    pub needs_key: bool,
}

// === impl Table ===

impl Table {
    /// Returns a POST request that a route of the service sends to `api`.
    pub(crate) fn entrance(
        &self,
        socket: SocketAddr,
        service: &PublishedService,
        api: &str,
    ) -> Option<Entrance> {
        let leads = |entrance: &Entrance| self.leads_to(entrance, &service.routes, api);
        let stated = Entrance::described_request(service, socket, self.is_tls(), api).filter(leads);
        let found = stated.or_else(|| {
            let entries = self.entries().filter(|entry| service.routes.contains(&entry.rule.route));
            // Entries come in no order.
            entries.filter_map(|entry| entry.entrance(socket, self.is_tls(), api)).filter(leads).min()
        })?;
        let needs_key = self.find(&found.head()?)?.rule.backends.iter().any(|one| one.key_scope.is_some());
        Some(Entrance { needs_key, ..found })
    }

    /// Whether a request ends at a back end of one of these routes, with this path.
    fn leads_to(&self, entrance: &Entrance, routes: &[Key], api: &str) -> bool {
        let Some(head) = entrance.head() else { return false };
        let Some(found) = self.find(&head) else { return false };
        let Some(changes) = found.rule.changes() else { return false };
        let mut path = head.uri.path_and_query().cloned();
        for change in changes {
            path = path.and_then(|path| change.apply(&path, found.prefix.as_deref()));
        }
        routes.contains(&found.rule.route) && path.is_some_and(|path| path.path() == api)
    }
}

// === impl Rule ===

impl Rule {
    /// Returns the changes of the path on the way to the first back end that can serve, or `None` if there is no such back
    /// end or the client is redirected.
    fn changes(&self) -> Option<Vec<&PathChange>> {
        let serves = |backend: &&WeightedBackend| {
            backend.weight > 0
                && match &backend.backend {
                    Ok(Backend::Pool(_)) => true,
                    Ok(Backend::Service(service)) => {
                        !service.endpoints.is_empty() || backend.scalable.is_some()
                    }
                    Err(_) => false,
                }
        };
        let backend = self.backends.iter().find(serves)?;
        let filters: [&Filters; 2] = [&*self.filters, &*backend.filters];
        if filters.iter().any(|filters| filters.redirect.is_some()) {
            return None;
        }
        Some(filters.into_iter().filter_map(|filters| filters.path.as_ref()).collect())
    }
}

// === impl Entry ===

impl Entry {
    /// Returns the request that this entry would send to `api`. Another entry may take it, so the caller checks it.
    fn entrance(&self, socket: SocketAddr, is_secure: bool, api: &str) -> Option<Entrance> {
        let changes = self.rule.changes()?;
        let path = match (&self.matcher.path, changes.as_slice()) {
            (Path::Prefix(_), []) => api.to_owned(),
            (Path::Prefix(prefix), [PathChange::Prefix(replacement)]) => {
                format!("{prefix}{}", api.strip_prefix(replacement.trim_end_matches('/'))?)
            }
            (Path::Prefix(prefix), _) if prefix.is_empty() => "/".to_owned(),
            (Path::Prefix(path) | Path::Exact(path), _) => path.clone(),
        };
        let Matcher { headers, query, .. } = &*self.matcher;
        let mut pairs = url::form_urlencoded::Serializer::new(String::new());
        pairs.extend_pairs(query);
        let query = pairs.finish();
        let path = if query.is_empty() { path } else { format!("{path}?{query}") };
        let host = self.host.as_ref().map(|host| host.replacen('*', WILDCARD, 1));
        // No single value stands for a regular expression: another entry has to serve.
        let value = |(name, value): &(HeaderName, HeaderValue)| match value {
            HeaderValue::Exact(value) => Some((name.to_string(), value.clone())),
            HeaderValue::Regex(_) => None,
        };
        let headers = headers.iter().map(value).collect::<Option<_>>()?;
        Some(Entrance { socket, is_secure, host, path, headers, needs_key: false })
    }
}

// === impl Entrance ===

impl Entrance {
    /// Returns the request to an API that the URL of the service describes.
    fn described_request(
        service: &PublishedService,
        socket: SocketAddr,
        is_secure: bool,
        api: &str,
    ) -> Option<Self> {
        let url = service.url.as_ref()?;
        let name = url.host().filter(|host| host.parse::<IpAddr>().is_err());
        let path = format!("{}{api}", url.path().trim_end_matches('/'));
        let host = name.map(ToOwned::to_owned);
        Some(Self { socket, is_secure, host, path, headers: Vec::new(), needs_key: false })
    }

    /// Returns the head of the request.
    fn head(&self) -> Option<Parts> {
        let path: PathAndQuery = self.path.parse().ok()?;
        let mut request = Request::builder().method(Method::POST).uri(path);
        request = request.header(header::HOST, self.host.as_deref().unwrap_or("127.0.0.1"));
        for (name, value) in &self.headers {
            request = request.header(name.parse::<HeaderName>().ok()?, value);
        }
        Some(request.body(()).ok()?.into_parts().0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use longboat_api::v1alpha2::LLMInferenceService;
    use serde_json::{Value, json};

    use super::{
        super::tests::{observed, tables},
        *,
    };

    const CHAT: &str = "/v1/chat/completions";

    fn found(rules: &Value, hostnames: &Value, url: &str) -> Option<Entrance> {
        asked(rules, hostnames, url, CHAT)
    }

    fn asked(rules: &Value, hostnames: &Value, url: &str, api: &str) -> Option<Entrance> {
        let mut observed = observed(rules);
        let mut route = serde_json::to_value(&*observed.routes[0]).unwrap();
        route["spec"]["hostnames"] = hostnames.clone();
        observed.routes = vec![Arc::new(serde_json::from_value(route).unwrap())];
        let address: IpAddr = "127.0.0.1".parse().unwrap();
        let routes = json!([{"name": "route", "namespace": "ns", "kind": "HTTPRoute", "group": "g"}]);
        let gateways = json!([{"name": "gateway", "namespace": "kserve", "kind": "Gateway", "group": "g", "httpRoutes": routes}]);
        let service: LLMInferenceService = serde_json::from_value(json!({
            "metadata": {"name": "llm", "namespace": "ns"}, "spec": {"model": {"uri": "hf://a/b"}},
            "status": {"url": url, "router": {"gateways": gateways}},
        }))
        .unwrap();
        tables(&observed, SocketAddr::new(address, 8080)).entrance(&PublishedService::new(&service), api)
    }

    fn path(rules: &Value, api: &str) -> Option<String> {
        asked(rules, &json!([]), "http://127.0.0.1:8080/odd", api).map(|entrance| entrance.path)
    }

    fn rule(path: &Value, rewrite: &Value) -> Value {
        let filters = match rewrite {
            Value::Null => json!([]),
            path => json!([{"type": "URLRewrite", "urlRewrite": {"path": path}}]),
        };
        let pool = json!({"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "pool"});
        json!({"matches": [{"path": path}], "filters": filters, "backendRefs": [pool]})
    }

    #[test]
    fn the_address_of_an_api_is_found_through_rewrites() {
        let prefix = |value: &str| json!({"type": "PathPrefix", "value": value});
        let exact = |value: &str| json!({"type": "Exact", "value": value});
        let replace = |with: &str| json!({"type": "ReplacePrefixMatch", "replacePrefixMatch": with});
        let full = |with: &str| json!({"type": "ReplaceFullPath", "replaceFullPath": with});
        for (path_match, rewrite, expected) in [
            (prefix("/"), json!(null), Some(CHAT)),
            (prefix("/v1"), json!(null), Some(CHAT)),
            (prefix("/ns/llm"), json!(null), None),
            (prefix("/ns/llm"), replace("/"), Some("/ns/llm/v1/chat/completions")),
            (prefix("/my/v1"), replace("/v1"), Some("/my/v1/chat/completions")),
            (prefix("/my/chat"), replace(CHAT), Some("/my/chat")),
            (prefix("/my/v1/completions"), replace("/v1/completions"), None),
            (exact("/ask"), full(CHAT), Some("/ask")),
            (exact("/ask"), json!(null), None),
            // Any path leads there, so the one in the status is kept.
            (prefix("/"), full(CHAT), Some("/odd/v1/chat/completions")),
        ] {
            let rules = json!([rule(&path_match, &rewrite)]);
            assert_eq!(path(&rules, CHAT).as_deref(), expected, "{path_match} {rewrite}");
        }
        let completions = json!([rule(&prefix("/my/v1/completions"), &replace("/v1/completions"))]);
        assert_eq!(path(&completions, "/v1/completions").as_deref(), Some("/my/v1/completions"));
        // A more specific rule takes the request away.
        let mut shadowed = rule(&exact("/ns/llm/v1/chat/completions"), &full("/nowhere"));
        let rules = json!([rule(&prefix("/ns/llm"), &replace("/")), shadowed.clone()]);
        assert_eq!(path(&rules, CHAT), None);
        shadowed["matches"][0]["headers"] = json!([{"name": "x-other", "value": "1"}]);
        let rules = json!([rule(&prefix("/ns/llm"), &replace("/")), shadowed]);
        assert_eq!(path(&rules, CHAT).as_deref(), Some("/ns/llm/v1/chat/completions"));
    }

    #[test]
    fn what_a_route_requires_is_part_of_the_request() {
        let mut rule = rule(&json!({"type": "PathPrefix", "value": "/"}), &json!(null));
        rule["matches"][0]["headers"] = json!([{"name": "X-Model", "value": "a"}]);
        rule["matches"][0]["queryParams"] = json!([{"name": "tenant", "value": "b c"}]);
        let entrance = found(&json!([rule]), &json!(["*.example.com"]), "http://inference.example.com/");
        let expected = Entrance {
            socket: "127.0.0.1:8080".parse().unwrap(),
            is_secure: false,
            host: Some("inference.example.com".into()),
            path: format!("{CHAT}?tenant=b+c"),
            headers: vec![("x-model".into(), "a".into())],
            needs_key: false,
        };
        assert_eq!(entrance, Some(expected));
    }

    #[test]
    fn the_address_in_the_status_is_preferred_where_it_works() {
        let rules = json!([
            rule(
                &json!({"type": "PathPrefix", "value": "/a"}),
                &json!({"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"})
            ),
            rule(
                &json!({"type": "PathPrefix", "value": "/b"}),
                &json!({"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"})
            ),
        ]);
        for (place, expected) in [("b", "/b/v1/chat/completions"), ("c", "/a/v1/chat/completions")] {
            let found = found(&rules, &json!([]), &format!("http://127.0.0.1:8080/{place}/")).unwrap();
            assert_eq!(found.path, expected);
        }
        // A name has no port; the gateway's ports are tried.
        let found = found(&rules, &json!(["a.example.com"]), "http://a.example.com/b").unwrap();
        let expected = ("/b/v1/chat/completions", Some("a.example.com"), 8080);
        assert_eq!((found.path.as_str(), found.host.as_deref(), found.socket.port()), expected);
    }
}
