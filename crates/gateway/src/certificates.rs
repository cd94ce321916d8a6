//! Certificates in the Secrets and ConfigMaps to which objects of the Gateway API refer. Pure functions.

use longboat_api::foreign::reference::SecretObjectReference;
use longboat_key::{Key, Name, Namespace};
use longboat_tls::{KeyPair, ServerCertificate};

use crate::{RoutingInputs, grants::Referrer, observed::has_key, problem::Problem};

/// The reason for certificates that are missing or unreadable.
pub(crate) const INVALID: &str = "InvalidCertificateRef";

/// The same for the certificates of CAs.
pub(crate) const INVALID_CA: &str = "InvalidCACertificateRef";

/// The reason for certificates of CAs in an object of another kind.
pub(crate) const INVALID_CA_KIND: &str = "InvalidCACertificateKind";

/// Why a reference leads nowhere.
pub(crate) enum NotPermitted {
    /// It is of another kind.
    Kind(String),
    /// No ReferenceGrant permits it.
    Grant(String),
}

/// Returns the key of an object of this kind of the core group, if it is one and the reference is permitted. A reference without
/// a kind is to a Secret.
pub(crate) fn permitted(
    observed: &RoutingInputs,
    referrer: Referrer<'_>,
    reference: &SecretObjectReference,
    wanted: &str,
) -> Result<Key, NotPermitted> {
    let group = reference.group.as_deref().unwrap_or_default();
    let kind = reference.kind.as_deref().unwrap_or("Secret");
    if (group, kind) != ("", wanted) {
        return Err(NotPermitted::Kind(format!(
            "certificates of kind {kind} in group \"{group}\" are not supported: use a {wanted}"
        )));
    }
    let within = reference.namespace.as_deref().map_or(referrer.namespace, Namespace);
    let key = Key::new(within, Name(&reference.name));
    if !observed.permits(referrer, (group, kind), &key) {
        return Err(NotPermitted::Grant(format!(
            "no ReferenceGrant in namespace {within} permits this reference to {kind} {key}"
        )));
    }
    Ok(key)
}

/// Returns the certificate and the key in a Secret, as text and ready for handshakes.
pub(crate) fn pair(
    observed: &RoutingInputs,
    referrer: Referrer<'_>,
    reference: &SecretObjectReference,
) -> Result<(KeyPair, ServerCertificate), Problem> {
    let invalid = |message| Problem { reason: INVALID, message };
    let key =
        permitted(observed, referrer, reference, "Secret").map_err(|error| error.with_reason(INVALID))?;
    let secret = observed.secrets.iter().find(|secret| has_key(&secret.metadata, &key));
    let secret =
        secret.ok_or_else(|| invalid(format!("there is no Secret {key} of type kubernetes.io/tls")))?;
    let text = |name: &str| {
        let data = secret.data.as_ref().and_then(|data| data.get(name));
        data.and_then(|data| String::from_utf8(data.0.clone()).ok())
            .ok_or_else(|| invalid(format!("Secret {key} has no text at {name}")))
    };
    let pair = KeyPair { certificate_pem: text("tls.crt")?, key_pem: text("tls.key")? };
    let certificate = ServerCertificate::new(&pair);
    let certificate = certificate.map_err(|error| invalid(format!("Secret {key}: {error}")))?;
    Ok((pair, certificate))
}

/// Returns the certificates of a CA in a ConfigMap, as PEM.
pub(crate) fn authority(
    observed: &RoutingInputs,
    referrer: Referrer<'_>,
    reference: &SecretObjectReference,
) -> Result<String, Problem> {
    let invalid = |message| Problem { reason: INVALID_CA, message };
    let key = permitted(observed, referrer, reference, "ConfigMap")
        .map_err(|error| error.with_reason(INVALID_CA_KIND))?;
    let map = observed.config_maps.iter().find(|map| has_key(&map.metadata, &key));
    let map = map.ok_or_else(|| invalid(format!("there is no ConfigMap {key}")))?;
    let pem = map.data.as_ref().and_then(|data| data.get("ca.crt"));
    let pem = pem.ok_or_else(|| invalid(format!("ConfigMap {key} has no ca.crt")))?;
    match longboat_tls::certificates(pem) {
        Ok(list) if !list.is_empty() => Ok(format!("{pem}\n")),
        Ok(_) => Err(invalid(format!("ca.crt of ConfigMap {key} has no certificate as PEM"))),
        Err(_) => Err(invalid(format!("ca.crt of ConfigMap {key} has a certificate that cannot be read"))),
    }
}

// === impl NotPermitted ===

impl NotPermitted {
    /// Returns the problem. Its reason is this one for an object of another kind.
    fn with_reason(self, reason: &'static str) -> Problem {
        match self {
            Self::Kind(message) => Problem { reason, message },
            Self::Grant(message) => Problem { reason: "RefNotPermitted", message },
        }
    }
}
