//! Resolves back end references.

use std::net::SocketAddr;

use longboat_api::foreign::{inferencepool::InferencePool, reference::BackendObjectReference};

use longboat_key::{Key, Name, Namespace};

use crate::{RoutingInputs, observed::is_of};

/// API group of the InferencePools that are served.
pub(crate) const POOL_GROUP: &str = "inference.networking.k8s.io";

/// A back end that exists. It may have no ready endpoint at the moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Backend {
    /// A Service. Any endpoint may serve a request.
    Service(Vec<SocketAddr>),
    /// An InferencePool. Its picker chooses the endpoint.
    Pool(Pool),
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
}

/// The reason why a back end cannot be resolved, in the Gateway API's terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BackendError {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

// === impl Backend ===

impl Backend {
    pub(crate) fn resolve(
        observed: &RoutingInputs,
        namespace: Namespace<&str>,
        reference: &BackendObjectReference,
    ) -> Result<Self, BackendError> {
        let within = reference.namespace.as_deref().map_or(namespace, Namespace);
        let name = Key::new(within, Name(&reference.name));
        if within != namespace {
            // The gateway does not read ReferenceGrants, so nothing can permit this reference.
            let message =
                format!("{name} is in another namespace, and this gateway does not support ReferenceGrant");
            return Err(BackendError { reason: "RefNotPermitted", message });
        }
        let group = reference.group.as_deref().unwrap_or_default();
        let kind = reference.kind.as_deref().unwrap_or("Service");
        let missing = |message| BackendError { reason: "BackendNotFound", message };
        match (group, kind) {
            ("", "Service") => {
                let port = reference.port.unwrap_or_default();
                let endpoints = observed.service_endpoints(&name, port);
                endpoints
                    .map(Self::Service)
                    .ok_or_else(|| missing(format!("there is no Service {name} with port {port}")))
            }
            (POOL_GROUP, "InferencePool") => {
                let pool = observed.pools.iter().find(|pool| is_of(&pool.metadata, &name));
                let pool = pool.ok_or_else(|| missing(format!("there is no InferencePool {name}")))?;
                Ok(Self::Pool(Pool::new(observed, name, pool)))
            }
            _ => {
                let message = format!("back ends of kind {kind} in group \"{group}\" are not supported");
                Err(BackendError { reason: "InvalidKind", message })
            }
        }
    }
}

// === impl Pool ===

impl Pool {
    fn new(observed: &RoutingInputs, name: Key, pool: &InferencePool) -> Self {
        let picker = &pool.spec.endpoint_picker_ref;
        let service = Key::new(name.namespace.as_deref(), Name(&picker.name));
        let port = picker.port.as_ref().map_or(9002, |port| port.number);
        Self {
            pickers: observed.service_endpoints(&service, port).unwrap_or_default(),
            fail_open: picker.failure_mode == "FailOpen",
            endpoints: observed.pool_endpoints(pool),
            name,
        }
    }
}

/// Returns why a pool's picker cannot be found, or `None` if it can.
pub(crate) fn picker_missing(observed: &RoutingInputs, pool: &InferencePool) -> Option<String> {
    let picker = &pool.spec.endpoint_picker_ref;
    let service = Key::new(Namespace::of(&pool.metadata), Name(&picker.name));
    let port = picker.port.as_ref().map_or(9002, |port| port.number);
    observed
        .service_endpoints(&service, port)
        .is_none()
        .then(|| format!("there is no Service {service} with port {port} for the endpoint picker"))
}
