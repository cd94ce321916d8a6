//! The URLs at which a service responds, derived from its routes and their Gateways.

use std::{collections::BTreeSet, net::IpAddr};

use longboat_api::foreign::{
    gateway::Gateway,
    httproute::{HTTPRoute, HTTPRouteMatch, HTTPRouteRule},
};
use longboat_key::{Key, Name, Namespace};

use super::gateway;
use crate::context::Context;

/// Replaces the star of a wildcard host name.
const WILDCARD: &str = "inference";

/// A URL and the Gateway behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GatewayUrl {
    pub(crate) scheme: &'static str,
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) url: String,
    pub(crate) gateway: Key,
}

/// All URLs of the routes, sorted.
///
/// # Errors
/// If a route names a Gateway or a listener that does not exist.
pub(crate) fn discover(context: &Context, routes: &[&HTTPRoute]) -> Result<Vec<GatewayUrl>, String> {
    let mut found = Vec::new();
    for route in routes {
        of_route(context, route, &mut found).map_err(|error| {
            format!("failed to discover URL for route {}: {error}", Key::of_metadata(&route.metadata))
        })?;
    }
    found.sort_by(|a, b| a.url.cmp(&b.url));
    Ok(found)
}

fn of_route(context: &Context, route: &HTTPRoute, found: &mut Vec<GatewayUrl>) -> Result<(), String> {
    let ingress = &context.snapshot.platform.ingress;
    let paths = paths(route, &ingress.model_header);
    for parent in route.spec.parent_refs.iter().filter(|parent| parent.is_gateway()) {
        let (namespace, name) = gateway::of_parent(context, parent);
        let found_gateway = context.snapshot.gateways.get(namespace, name);
        let gateway = found_gateway
            .ok_or_else(|| format!("failed to get Gateway {namespace}/{name}: it does not exist"))?;
        let listeners = gateway::listeners(gateway, parent.section_name.as_deref(), &ingress.url_scheme)
            .map_err(|error| format!("failed to select listeners for gateway {namespace}/{name}: {error}"))?;

        let mut places: Vec<(&'static str, String, i32)> = Vec::new();
        for (listener, scheme) in &listeners {
            for host in external_hosts(route, gateway, listener.hostname.as_deref()) {
                places.push((*scheme, host, listener.port));
            }
        }
        if let Some((service, ports)) = backing_service(context, namespace, name) {
            let host = format!("{service}.{namespace}.svc.{}", context.snapshot.cluster_domain);
            let declared =
                listeners.iter().filter(|(listener, _)| ports.is_empty() || ports.contains(&listener.port));
            places.extend(declared.map(|(listener, scheme)| (*scheme, host.clone(), listener.port)));
        }

        let mut seen = BTreeSet::new();
        for path in &paths {
            for (scheme, host, port) in &places {
                let url = format!("{scheme}://{}{path}", authority(scheme, host, *port));
                if seen.insert(url.clone()) {
                    found.push(GatewayUrl {
                        scheme,
                        host: host.clone(),
                        path: path.clone(),
                        url,
                        gateway: Key::new(namespace, name),
                    });
                }
            }
        }
    }
    Ok(())
}

/// The host names of the route, else of the listener, else the addresses of the Gateway. Empty while the Gateway has no
/// address.
fn external_hosts(route: &HTTPRoute, gateway: &Gateway, listener_host: Option<&str>) -> Vec<String> {
    let addresses: Vec<&str> = gateway
        .status
        .iter()
        .flat_map(|status| &status.addresses)
        .map(|address| address.value.as_str())
        .collect();
    if addresses.is_empty() {
        return Vec::new();
    }
    let mut hosts: Vec<String> =
        route.spec.hostnames.iter().filter(|host| !host.is_empty() && *host != "*").cloned().collect();
    if hosts.is_empty() {
        hosts.extend(listener_host.filter(|host| !host.is_empty()).map(
            |host| match host.strip_prefix("*.") {
                Some(domain) => format!("{WILDCARD}.{domain}"),
                None => host.to_owned(),
            },
        ));
    }
    if hosts.is_empty() {
        hosts.extend(addresses.into_iter().filter(|address| !address.is_empty()).map(str::to_owned));
    }
    hosts.sort();
    hosts
}

/// The Service that a gateway implementation created for a Gateway, and its ports.
fn backing_service(
    context: &Context,
    namespace: Namespace<&str>,
    gateway: Name<&str>,
) -> Option<(String, Vec<i32>)> {
    let service = context.snapshot.service_behind(namespace, gateway)?;
    let ports =
        service.spec.iter().flat_map(|spec| spec.ports.iter().flatten()).map(|port| port.port).collect();
    Some((service.metadata.name.clone()?, ports))
}

/// The host and port in a URL. The default port of the scheme is left out.
pub(crate) fn authority(scheme: &str, host: &str, port: i32) -> String {
    // An IPv6 address is in brackets (RFC 3986, section 3.2.2).
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    match (scheme, port) {
        ("http", 80) | ("https", 443) => host,
        _ => format!("{host}:{port}"),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// By a path of the service's own.
    Path,
    /// By the path that all services of one model name share.
    Publisher,
    /// By the header that names the model.
    ModelRouting,
}

/// At most one path for each way to address the service, the shallowest first.
fn paths(route: &HTTPRoute, header: &str) -> Vec<String> {
    let mut chosen: Vec<String> = [Purpose::Path, Purpose::Publisher, Purpose::ModelRouting]
        .into_iter()
        .filter_map(|purpose| {
            let candidates = |to_service: bool| {
                let rules =
                    route.spec.rules.iter().filter(move |rule| has_service_backend(rule) == to_service);
                let matches = rules.flat_map(|rule| &rule.matches);
                let paths = matches.filter(|found| classify(found, header) == Some(purpose)).map(path_of);
                paths.min_by_key(|path| depth(path))
            };
            // A rule that leads to the Service reaches every endpoint of the server, not only the inference endpoints.
            candidates(true).or_else(|| candidates(false)).map(str::to_owned)
        })
        .collect();
    chosen.sort_by_key(|path| depth(path));
    chosen.dedup();
    if chosen.is_empty() {
        chosen.push("/".into());
    }
    chosen
}

fn depth(path: &str) -> (usize, usize) {
    (path.matches('/').count(), path.len())
}

fn path_of(found: &HTTPRouteMatch) -> &str {
    found.path.as_ref().and_then(|path| path.value.as_deref()).unwrap_or("/")
}

fn classify(found: &HTTPRouteMatch, header: &str) -> Option<Purpose> {
    if found.headers.is_empty() {
        return Some(if path_of(found).starts_with("/publishers/") {
            Purpose::Publisher
        } else {
            Purpose::Path
        });
    }
    // The names of header fields have no case (RFC 9110, section 5.1).
    let by_model = found.headers.iter().any(|candidate| candidate.name.eq_ignore_ascii_case(header));
    by_model.then_some(Purpose::ModelRouting)
}

fn has_service_backend(rule: &HTTPRouteRule) -> bool {
    rule.backend_refs
        .iter()
        .any(|reference| reference.backend.kind.as_deref().unwrap_or("Service") == "Service")
}

// === impl GatewayUrl ===

impl GatewayUrl {
    /// Whether only clients in the cluster, or in the private network, can use it.
    pub(crate) fn is_internal(&self, cluster_domain: &str) -> bool {
        if let Ok(address) = self.host.parse::<IpAddr>() {
            return match address {
                IpAddr::V4(v4) => v4.is_private(),
                IpAddr::V6(v6) => v6.is_unique_local(),
            };
        }
        let host = self.host.to_ascii_lowercase();
        let suffixes = [cluster_domain, ".local", ".localhost", ".internal"];
        host == "localhost" || suffixes.iter().any(|suffix| host.ends_with(&suffix.to_ascii_lowercase()))
    }

    /// Whether requests to this URL name the model in a header.
    pub(crate) fn is_model_routing(&self) -> bool {
        self.path.is_empty() || self.path == "/"
    }

    /// The kind of the address, for `status.addresses[].name`.
    pub(crate) fn kind(&self, cluster_domain: &str) -> String {
        let place = if self.host.to_ascii_lowercase().ends_with(&cluster_domain.to_ascii_lowercase()) {
            "gateway-internal"
        } else if self.is_internal(cluster_domain) {
            "internal"
        } else {
            "gateway-external"
        };
        let suffix = if self.is_model_routing() { "-model-routing" } else { "" };
        format!("{place}{suffix}")
    }
}

/// The URL to show to users: preferably one outside of the cluster, and preferably below the service's own path.
pub(crate) fn preferred<'a>(context: &Context, found: &'a [GatewayUrl]) -> Option<&'a GatewayUrl> {
    let own_path = format!("/{}/{}", context.namespace, context.name);
    let domain = &context.snapshot.cluster_domain;
    let mut external = found.iter().filter(|entry| !entry.is_internal(domain)).peekable();
    if external.peek().is_some() {
        let external: Vec<_> = external.collect();
        return external.iter().find(|entry| entry.path.starts_with(&own_path)).or(external.first()).copied();
    }
    // As in the reference, the preferred scheme decides between internal URLs only.
    let scheme = &context.snapshot.platform.ingress.url_scheme;
    let below_path = || found.iter().filter(|entry| entry.path.starts_with(&own_path));
    below_path().find(|entry| entry.scheme == scheme).or_else(|| below_path().next()).or(found.first())
}
