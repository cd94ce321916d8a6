//! Resolves back end references.

use std::{
    collections::{BTreeMap, HashSet},
    net::SocketAddr,
    sync::Arc,
};

use k8s_openapi::{Resource, api::core::v1::ServicePort};
use longboat_api::foreign::{
    httproute::HTTPRoute, inferencepool::InferencePool, reference::BackendObjectReference,
};
use longboat_key::{Key, Name, Namespace};
use longboat_tls::KeyPair;

use super::rule::references;
use crate::{
    RoutingInputs,
    grants::Referrer,
    observed::has_key,
    problem::Problem,
    tls_policies::{self, TlsSettings},
};

/// `appProtocol` of ports and pools that serve HTTP/2 without TLS.
const H2C: &str = "kubernetes.io/h2c";

/// `appProtocol` of ports that serve WebSockets, which begin as HTTP/1.1, without TLS and with it.
const WS: &str = "kubernetes.io/ws";
const WSS: &str = "kubernetes.io/wss";

/// `appProtocol` of ports that serve HTTP/1.1 over TLS, as the Services of model servers with TLS do.
const HTTPS: &str = "https";

/// A back end that exists. It may have no ready endpoint at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Backend {
    /// A Service. Any endpoint may serve a request.
    Service(ServiceBackend),
    /// An InferencePool. Its picker chooses the endpoint.
    Pool(Arc<Pool>),
}

/// A resolved port of a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceBackend {
    /// Ready endpoints.
    pub(crate) endpoints: Vec<SocketAddr>,
    pub(crate) link: Link,
}

/// How to talk to an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Link {
    /// HTTP/1.1.
    Http,
    /// HTTP/2 without TLS.
    H2c,
    /// HTTP/1.1 over TLS.
    Tls(Arc<TlsSettings>),
    /// HTTP/1.1 over TLS, with any certificate: no policy says which one to expect.
    UnverifiedTls,
    /// [`Self::UnverifiedTls`] to these endpoints, [`Self::Http`] to others. While a pool gets or loses TLS, it has pods of both
    /// kinds.
    UnverifiedTlsTo(Arc<HashSet<SocketAddr>>),
    /// Not at all, because the policy for connections to it cannot be used.
    Refused(String),
}

/// A resolved InferencePool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pool {
    pub(crate) name: Key,
    /// Ready pickers.
    pub(crate) pickers: Vec<SocketAddr>,
    /// Whether requests continue without a picker if none answers.
    pub(crate) fail_open: bool,
    /// Ready model servers.
    pub(crate) endpoints: Vec<SocketAddr>,
    /// How to talk to them.
    pub(crate) link: Link,
}

/// Resolves references to back ends. Routes to the same pool share what they find of it.
pub(crate) struct BackendResolver<'a> {
    pub(crate) observed: &'a RoutingInputs,
    pools: BTreeMap<Key, Arc<Pool>>,
}

/// An object to which a reference leads.
enum Referent<'a> {
    Service(Key, &'a ServicePort),
    Pool(Key, &'a InferencePool),
}

/// Returns why a reference leads nowhere. The problem has the reason for the status of the route.
pub(crate) fn problem(
    observed: &RoutingInputs,
    namespace: Namespace<&str>,
    reference: &BackendObjectReference,
) -> Option<Problem> {
    find(observed, namespace, reference).err()
}

fn find<'a>(
    observed: &'a RoutingInputs,
    namespace: Namespace<&str>,
    reference: &BackendObjectReference,
) -> Result<Referent<'a>, Problem> {
    let (group, name) = referred(observed, namespace, reference)?;
    let missing = |message| Problem { reason: "BackendNotFound", message };
    if group == InferencePool::GROUP {
        return match observed.pools.iter().find(|pool| has_key(&pool.metadata, &name)) {
            Some(pool) => Ok(Referent::Pool(name, pool)),
            None => Err(missing(format!("there is no InferencePool {name}"))),
        };
    }
    let number = reference.port.unwrap_or_default();
    let Some(port) = observed.service_port(&name, number) else {
        return Err(missing(format!("there is no Service {name} with port {number}")));
    };
    // The others are names of IANA, or of implementations, and do not keep HTTP from being spoken.
    match port.app_protocol.as_deref().filter(|protocol| protocol.starts_with("kubernetes.io/")) {
        None | Some(H2C | WS) => Ok(Referent::Service(name, port)),
        Some(WSS) if tls_policies::policy(observed, &name, port.name.as_deref()).is_some() => {
            Ok(Referent::Service(name, port))
        }
        Some(other) => {
            let message = format!(
                "port {number} of Service {name} has the appProtocol `{other}`, which this gateway does not serve: use http, https, \
                 {H2C}, {WS}, or {WSS} with a BackendTLSPolicy"
            );
            Err(Problem { reason: "UnsupportedProtocol", message })
        }
    }
}

// === impl BackendResolver ===

impl<'a> BackendResolver<'a> {
    pub(crate) fn new(observed: &'a RoutingInputs) -> Self {
        Self { observed, pools: BTreeMap::new() }
    }

    /// Resolves a reference. The error has the reason for the status of the route.
    pub(crate) fn resolve(
        &mut self,
        namespace: Namespace<&str>,
        reference: &BackendObjectReference,
    ) -> Result<Backend, Problem> {
        let observed = self.observed;
        let (name, port) = match find(observed, namespace, reference)? {
            Referent::Service(name, port) => (name, port),
            Referent::Pool(name, pool) => {
                let new = || Arc::new(Pool::new(observed, name.clone(), pool));
                return Ok(Backend::Pool(self.pools.entry(name.clone()).or_insert_with(new).clone()));
            }
        };
        let endpoints = observed.service_endpoints(&name, port.port).unwrap_or_default();
        let link = match tls_policies::settings(observed, &name, port.name.as_deref()) {
            Some(Ok(settings)) => Link::Tls(settings),
            Some(Err(message)) => Link::Refused(message),
            // A policy counts before `appProtocol`, which says nothing about certificates.
            None => match port.app_protocol.as_deref() {
                Some(H2C) => Link::H2c,
                Some(HTTPS) => Link::UnverifiedTls,
                _ => Link::Http,
            },
        };
        Ok(Backend::Service(ServiceBackend { endpoints, link }))
    }
}

// === impl Backend ===

impl Backend {
    /// Makes connections with verified TLS show this certificate.
    pub(crate) fn present(&mut self, certificate: &Arc<KeyPair>) {
        match self {
            Self::Service(service) => service.link.present(certificate),
            // No policy has a pool as its target.
            Self::Pool(_) => {}
        }
    }
}

/// Returns the group and the name of the object to which a reference of a route leads, whether it exists or not.
fn referred<'a>(
    observed: &RoutingInputs,
    namespace: Namespace<&str>,
    reference: &'a BackendObjectReference,
) -> Result<(&'a str, Key), Problem> {
    let within = reference.namespace.as_deref().map_or(namespace, Namespace);
    let name = Key::new(within, Name(&reference.name));
    let group = reference.group.as_deref().unwrap_or_default();
    let kind = reference.kind.as_deref().unwrap_or("Service");
    if !matches!((group, kind), ("", "Service") | (InferencePool::GROUP, "InferencePool")) {
        let message = format!("back ends of kind {kind} in group \"{group}\" are not supported");
        return Err(Problem { reason: "InvalidKind", message });
    }
    if !observed.permits(Referrer { kind: "HTTPRoute", namespace }, (group, kind), &name) {
        let message = format!(
            "no ReferenceGrant in namespace {within} permits HTTPRoutes of namespace {namespace} to refer to \
             {kind} {name}"
        );
        return Err(Problem { reason: "RefNotPermitted", message });
    }
    Ok((group, name))
}

/// Returns the pools to which a route may lead.
pub(crate) fn pool_keys(observed: &RoutingInputs, route: &HTTPRoute) -> Vec<Key> {
    let references = route.spec.rules.iter().flat_map(|rule| &rule.backend_refs);
    keys(observed, route, InferencePool::GROUP, references.map(|reference| &reference.backend))
}

/// Returns the Services to which a route may lead, also those that only get copies of requests.
pub(crate) fn service_keys(observed: &RoutingInputs, route: &HTTPRoute) -> Vec<Key> {
    keys(observed, route, "", &references(route))
}

fn keys<'a>(
    observed: &RoutingInputs,
    route: &HTTPRoute,
    expected_group: &str,
    references: impl IntoIterator<Item = &'a BackendObjectReference>,
) -> Vec<Key> {
    let namespace = Namespace::of(&route.metadata);
    let referred =
        references.into_iter().filter_map(|reference| referred(observed, namespace, reference).ok());
    referred.filter(|(group, _)| *group == expected_group).map(|(_, key)| key).collect()
}

// === impl Link ===

impl Link {
    /// Makes connections with verified TLS show this certificate.
    fn present(&mut self, certificate: &Arc<KeyPair>) {
        if let Self::Tls(settings) = self {
            Arc::make_mut(settings).client = Some(certificate.clone());
        }
    }

    /// Returns how to talk to one of the endpoints.
    pub(crate) fn to(&self, endpoint: SocketAddr) -> &Self {
        match self {
            Self::UnverifiedTlsTo(endpoints) if endpoints.contains(&endpoint) => &Self::UnverifiedTls,
            Self::UnverifiedTlsTo(_) => &Self::Http,
            one => one,
        }
    }
}

// === impl Pool ===

impl Pool {
    fn new(observed: &RoutingInputs, name: Key, pool: &InferencePool) -> Self {
        let (service, port) = picker_service(pool);
        Self {
            pickers: observed.service_endpoints(&service, port).unwrap_or_default(),
            fail_open: pool.spec.endpoint_picker_ref.failure_mode == "FailOpen",
            endpoints: observed.pool_endpoints(pool),
            link: match pool.spec.app_protocol.as_str() {
                H2C => Link::H2c,
                _ => Link::UnverifiedTlsTo(Arc::new(observed.pool_tls_endpoints(pool))),
            },
            name,
        }
    }
}

/// Returns the Service of a pool's picker and its port.
fn picker_service(pool: &InferencePool) -> (Key, i32) {
    let picker = &pool.spec.endpoint_picker_ref;
    let service = Key::new(Namespace::of(&pool.metadata), Name(&picker.name));
    (service, picker.port.as_ref().map_or(9002, |port| port.number))
}

/// Returns why a pool's picker cannot be found, or `None` if it can. The picker of a pool that names none is in the gateway, if
/// the gateway picks.
pub(crate) fn picker_missing(
    observed: &RoutingInputs,
    pool: &InferencePool,
    gateway_picks: bool,
) -> Option<String> {
    if pool.spec.endpoint_picker_ref.name.is_empty() {
        return (!gateway_picks).then(|| {
            "endpointPickerRef names no endpoint picker: name a Service, or set `picking: gateway` in the \
             parameters of the Gateway"
                .to_owned()
        });
    }
    let (service, port) = picker_service(pool);
    observed
        .service_endpoints(&service, port)
        .is_none()
        .then(|| format!("there is no Service {service} with port {port} for the endpoint picker"))
}
