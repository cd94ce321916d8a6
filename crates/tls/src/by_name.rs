//! Server certificates that are chosen by the name that the client asks for (SNI).

use std::{fmt, sync::Arc};

use rustls::{
    ServerConfig,
    client::verify_server_name,
    pki_types::ServerName,
    server::{ClientHello, ParsedCertificate, ResolvesServerCert},
    sign::CertifiedKey,
};
use x509_parser::{certificate::X509Certificate, extensions::GeneralName, prelude::FromDer};

use crate::{KeyPair, ServerOptions, TlsError, config::certified_key};

/// A certificate chain with its key, ready for handshakes.
#[derive(Clone)]
pub struct ServerCertificate(Arc<CertifiedKey>);

/// Creates a configuration that asks `choose` for the certificate of each connection, with the name that the client asks for.
/// Certificates can be replaced at any time: open connections do not change.
pub fn server_config_by_name(
    options: &ServerOptions,
    choose: impl Fn(Option<&str>) -> Option<ServerCertificate> + Send + Sync + 'static,
) -> Result<Arc<ServerConfig>, TlsError> {
    options.config(Arc::new(ByName(choose)))
}

// === impl ServerCertificate ===

impl ServerCertificate {
    /// Reads a certificate chain and its key.
    pub fn new(pair: &KeyPair) -> Result<Self, TlsError> {
        certified_key(pair).map(Arc::new).map(Self)
    }

    /// Whether the certificate is valid for this name.
    pub fn covers(&self, name: &str) -> bool {
        let leaf = self.0.cert.first().and_then(|leaf| ParsedCertificate::try_from(leaf).ok());
        let name = ServerName::try_from(name).ok();
        leaf.zip(name).is_some_and(|(leaf, name)| verify_server_name(&leaf, &name).is_ok())
    }

    /// Whether the certificate has this very name, and not only a wildcard for it.
    pub fn names(&self, name: &str) -> bool {
        let leaf = self.0.cert.first().and_then(|leaf| X509Certificate::from_der(leaf).ok());
        let alternatives = leaf.as_ref().and_then(|(_, leaf)| leaf.subject_alternative_name().ok().flatten());
        alternatives.is_some_and(|list| {
            let is_it = |known: &GeneralName<'_>| matches!(known, GeneralName::DNSName(dns) if dns.eq_ignore_ascii_case(name));
            list.value.general_names.iter().any(is_it)
        })
    }
}

impl fmt::Debug for ServerCertificate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ServerCertificate")
    }
}

struct ByName<F>(F);

impl<F> fmt::Debug for ByName<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ByName")
    }
}

impl<F> ResolvesServerCert for ByName<F>
where
    F: Fn(Option<&str>) -> Option<ServerCertificate> + Send + Sync,
{
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        (self.0)(hello.server_name()).map(|certificate| certificate.0)
    }
}
