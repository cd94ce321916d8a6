//! Certificates in the Secrets and ConfigMaps to which objects of the Gateway API refer. Pure functions.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::core::v1::Secret;
use longboat_api::foreign::reference::SecretObjectReference;
use longboat_key::{Key, Name, Namespace};
use longboat_tls::{KeyPair, ServerCertificate};

use crate::{RoutingInputs, grants::Referrer, observed::has_key, problem::Problem};

/// The most Secrets that the listeners of a Gateway may name. Each is a watch with a connection of its own, and a ListenerSet may name
/// 4,096.
const MAX_SECRETS: usize = 512;

/// The reason for certificates that are missing or unreadable.
pub(crate) const INVALID: &str = "InvalidCertificateRef";

/// The same for the certificates of CAs.
pub(crate) const INVALID_CA: &str = "InvalidCACertificateRef";

/// The reason for certificates of CAs in an object of another kind.
pub(crate) const INVALID_CA_KIND: &str = "InvalidCACertificateKind";

/// Returns the key of an object of this kind of the core group, if it is one and the reference is permitted. A reference without
/// a kind is to a Secret.
pub(crate) fn permitted(
    observed: &RoutingInputs,
    referrer: Referrer<'_>,
    reference: &SecretObjectReference,
    expected_kind: &str,
) -> Result<Key, Problem> {
    let group = reference.group.as_deref().unwrap_or_default();
    let kind = reference.kind.as_deref().unwrap_or("Secret");
    if (group, kind) != ("", expected_kind) {
        let reason = if expected_kind == "Secret" { INVALID } else { INVALID_CA_KIND };
        let message = format!(
            "certificates of kind {kind} in group \"{group}\" are not supported: use a {expected_kind}"
        );
        return Err(Problem { reason, message });
    }
    let within = reference.namespace.as_deref().map_or(referrer.namespace, Namespace);
    let key = Key::new(within, Name(&reference.name));
    if !observed.permits(referrer, (group, kind), &key) {
        let message =
            format!("no ReferenceGrant in namespace {within} permits this reference to {kind} {key}");
        return Err(Problem { reason: "RefNotPermitted", message });
    }
    Ok(key)
}

/// The Secrets of the listeners of a Gateway, which are added in the order of the listeners.
#[derive(Debug, Default)]
pub(crate) struct ListenerSecrets(pub(crate) BTreeSet<Key>);

// === impl ListenerSecrets ===

impl ListenerSecrets {
    /// Adds the Secret of a reference. The error says why the reference counts for nothing.
    pub(crate) fn add(
        &mut self,
        observed: &RoutingInputs,
        referrer: Referrer<'_>,
        reference: &SecretObjectReference,
    ) -> Result<(), Problem> {
        let key = permitted(observed, referrer, reference, "Secret")?;
        if self.0.len() == MAX_SECRETS && !self.0.contains(&key) {
            let message = format!(
                "Secret {key} is not read, because the listeners before this one name {MAX_SECRETS} others, which is the most for a \
                 Gateway: name one of them, or use another Gateway"
            );
            return Err(Problem { reason: INVALID, message });
        }
        self.0.insert(key);
        Ok(())
    }
}

/// A certificate with its key, as text and ready for handshakes.
pub(crate) struct UsablePair {
    pub(crate) pair: KeyPair,
    pub(crate) certificate: ServerCertificate,
    /// Why it is a former version, if the present one cannot be used.
    pub(crate) problem: Option<Problem>,
}

/// Returns the certificate in a Secret: the present version, or else the last one that could be used.
pub(crate) fn pair(
    observed: &RoutingInputs,
    referrer: Referrer<'_>,
    reference: &SecretObjectReference,
) -> Result<UsablePair, Problem> {
    let invalid = |message| Problem { reason: INVALID, message };
    let key = permitted(observed, referrer, reference, "Secret")?;
    let secret = observed.secrets.iter().find(|secret| has_key(&secret.metadata, &key));
    let secret =
        secret.ok_or_else(|| invalid(format!("there is no Secret {key} of type kubernetes.io/tls")))?;
    let why = match read(secret) {
        Ok((pair, certificate)) => return Ok(UsablePair { pair, certificate, problem: None }),
        Err(why) => format!("Secret {key}: {why}"),
    };
    let former = observed.former_secrets.iter().find(|secret| has_key(&secret.metadata, &key));
    let Some((pair, certificate)) = former.and_then(|former| read(former).ok()) else {
        return Err(invalid(why));
    };
    let problem = Some(invalid(format!("{why}; the certificate that it had before stays in use")));
    Ok(UsablePair { pair, certificate, problem })
}

/// Reads the certificate and the key in a Secret.
fn read(secret: &Secret) -> Result<(KeyPair, ServerCertificate), String> {
    let text = |name: &str| {
        let data = secret.data.as_ref().and_then(|data| data.get(name));
        let text = data.and_then(|data| String::from_utf8(data.0.clone()).ok());
        text.ok_or_else(|| format!("there is no text at {name}"))
    };
    let pair = KeyPair { certificate_pem: text("tls.crt")?, key_pem: text("tls.key")? };
    let certificate = ServerCertificate::new(&pair).map_err(|error| error.to_string())?;
    Ok((pair, certificate))
}

/// The versions of Secrets that were usable last, so that a mistake in a new version ends no listener.
#[derive(Default)]
pub(crate) struct LastUsable(BTreeMap<Key, Version>);

struct Version {
    seen: Arc<Secret>,
    usable: Option<Arc<Secret>>,
}

// === impl LastUsable ===

impl LastUsable {
    /// Remembers the versions that can be used, and returns former versions of the Secrets whose present one cannot. A Secret that is
    /// deleted is forgotten.
    pub(crate) fn update(&mut self, secrets: &[Arc<Secret>]) -> Vec<Arc<Secret>> {
        let mut before = std::mem::take(&mut self.0);
        for secret in secrets {
            let key = Key::of(secret.as_ref());
            // Compared by address: the store replaces an object that changes, and reading a key is expensive.
            let version = match before.remove(&key) {
                Some(version) if Arc::ptr_eq(&version.seen, secret) => version,
                known => {
                    let present = read(secret).is_ok().then(|| secret.clone());
                    Version { seen: secret.clone(), usable: present.or(known.and_then(|known| known.usable)) }
                }
            };
            self.0.insert(key, version);
        }
        let former = self.0.values().filter_map(|version| {
            version.usable.clone().filter(|usable| !Arc::ptr_eq(usable, &version.seen))
        });
        former.collect()
    }
}

/// Returns the certificates of a CA in a ConfigMap, as PEM.
pub(crate) fn authority(
    observed: &RoutingInputs,
    referrer: Referrer<'_>,
    reference: &SecretObjectReference,
) -> Result<String, Problem> {
    let invalid = |message| Problem { reason: INVALID_CA, message };
    let key = permitted(observed, referrer, reference, "ConfigMap")?;
    let map = observed.config_maps.iter().find(|map| has_key(&map.metadata, &key));
    let map = map.ok_or_else(|| invalid(format!("there is no ConfigMap {key}")))?;
    let pem = map.data.as_ref().and_then(|data| data.get("ca.crt"));
    let pem = pem.ok_or_else(|| invalid(format!("ConfigMap {key} has no ca.crt")))?;
    match longboat_tls::certificates(pem) {
        Ok(list) if !list.is_empty() => {
            match list.iter().find_map(|certificate| certificate.check_key().err()) {
                Some(error) => Err(invalid(format!("ca.crt of ConfigMap {key}: {error}"))),
                None => Ok(format!("{pem}\n")),
            }
        }
        Ok(_) => Err(invalid(format!("ca.crt of ConfigMap {key} has no certificate as PEM"))),
        Err(_) => Err(invalid(format!("ca.crt of ConfigMap {key} has a certificate that cannot be read"))),
    }
}
