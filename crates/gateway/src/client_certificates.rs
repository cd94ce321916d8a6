//! Client certificates of a Gateway (`spec.tls`): those that its clients must have, and its own for back ends. Pure functions.

use std::sync::Arc;

use longboat_api::foreign::{
    gateway::{FrontendTlsValidation, Gateway},
    reference::SecretObjectReference,
};
use longboat_key::{Key, Namespace};
use longboat_tls::{ClientCertificates, KeyPair};

use crate::{
    RoutingInputs, certificates,
    gateways::{Protocol, protocol},
    grants::Referrer,
    problem::Problem,
};

/// The mode that lets clients in whose certificate is wrong or missing.
const INSECURE: &str = "AllowInsecureFallback";

/// What a listener demands of its clients.
#[derive(Debug, Default)]
pub(crate) struct ClientDemand {
    pub(crate) certificates: ClientCertificates,
    /// Why the listener is not served.
    pub(crate) refused: Option<Problem>,
    /// The first reference that cannot be resolved.
    pub(crate) unresolved: Option<Problem>,
}

fn referrer(gateway: &Gateway) -> Referrer<'_> {
    Referrer { kind: "Gateway", namespace: Namespace::of(&gateway.metadata) }
}

/// Returns what a Gateway demands of the clients on a port: the setting for this port, or else that for all.
fn validation(gateway: &Gateway, port: i32) -> Option<&FrontendTlsValidation> {
    let frontend = gateway.spec.tls.as_ref()?.frontend.as_ref()?;
    let of_port = frontend.per_port.iter().find(|setting| setting.port == port);
    of_port.map_or(&frontend.default, |setting| &setting.tls).validation.as_ref()
}

fn is_insecure(validation: &FrontendTlsValidation) -> bool {
    validation.mode.as_deref() == Some(INSECURE)
}

/// Returns what an HTTPS listener on this port demands of its clients. References to CA certificates that cannot be resolved count
/// for nothing, as long as one can: fewer clients come in. If none can, the listener is refused, so that nobody comes in.
pub(crate) fn demand(observed: &RoutingInputs, gateway: &Gateway, port: i32) -> ClientDemand {
    let Some(validation) = validation(gateway, port) else { return ClientDemand::default() };
    let (mut pem, mut unresolved) = (String::new(), None);
    for reference in &validation.ca_certificate_refs {
        match certificates::authority(observed, referrer(gateway), reference) {
            Ok(text) => pem.push_str(&text),
            Err(problem) => unresolved = unresolved.or(Some(problem)),
        }
    }
    if pem.is_empty() {
        let message = unresolved.as_ref().map_or_else(
            || "spec.tls.frontend has no caCertificateRefs".to_owned(),
            |problem: &Problem| problem.message.clone(),
        );
        let refused = Some(Problem { reason: "NoValidCACertificate", message });
        return ClientDemand { refused, unresolved, ..ClientDemand::default() };
    }
    // Also in the insecure mode, some CA must be readable: without one, the setting is a mistake.
    let certificates = if is_insecure(validation) {
        ClientCertificates::Any
    } else {
        ClientCertificates::SignedBy(pem.into())
    };
    ClientDemand { certificates, refused: None, unresolved }
}

/// Whether the insecure mode is set for a listener of the Gateway.
pub(crate) fn is_any_insecure(gateway: &Gateway) -> bool {
    let https = gateway.spec.listeners.iter().filter(|listener| protocol(listener) == Some(Protocol::Https));
    https.filter_map(|listener| validation(gateway, listener.port)).any(is_insecure)
}

/// Returns the reference to the certificate that a Gateway shows to its back ends.
fn backend_reference(gateway: &Gateway) -> Option<&SecretObjectReference> {
    gateway.spec.tls.as_ref()?.backend.as_ref()?.client_certificate_ref.as_ref()
}

/// The certificate that a Gateway shows to back ends with TLS.
#[derive(Debug)]
pub(crate) struct BackendCertificate {
    /// `None` if it cannot be used.
    pub(crate) pair: Option<Arc<KeyPair>>,
    /// Why it, or its present version, cannot be used.
    pub(crate) problem: Option<Problem>,
}

/// Returns the certificate that a Gateway shows to back ends with TLS, or `None` if it names none.
pub(crate) fn of_backend(observed: &RoutingInputs, gateway: &Gateway) -> Option<BackendCertificate> {
    let reference = backend_reference(gateway)?;
    let (pair, problem) = match certificates::pair(observed, referrer(gateway), reference) {
        Ok(usable) => (Some(Arc::new(usable.pair)), usable.problem),
        Err(problem) => (None, Some(problem)),
    };
    let problem = problem.map(|problem| match problem {
        Problem { reason: certificates::INVALID, message } => {
            Problem { reason: "InvalidClientCertificateRef", message }
        }
        other => other,
    });
    Some(BackendCertificate { pair, problem })
}

/// Returns the Secrets and the ConfigMaps to which the Gateway refers and may refer.
pub(crate) fn references(observed: &RoutingInputs, gateway: &Gateway) -> (Option<Key>, Vec<Key>) {
    let secret = backend_reference(gateway)
        .and_then(|reference| certificates::permitted(observed, referrer(gateway), reference, "Secret").ok());
    let frontend = gateway.spec.tls.as_ref().and_then(|tls| tls.frontend.as_ref());
    let settings = frontend.iter().flat_map(|frontend| {
        std::iter::once(&frontend.default).chain(frontend.per_port.iter().map(|setting| &setting.tls))
    });
    let maps = settings
        .filter_map(|setting| setting.validation.as_ref())
        .flat_map(|validation| &validation.ca_certificate_refs)
        .filter_map(|reference| {
            certificates::permitted(observed, referrer(gateway), reference, "ConfigMap").ok()
        });
    (secret, maps.collect())
}
