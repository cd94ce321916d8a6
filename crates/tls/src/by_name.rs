//! Server certificates that are chosen by the name that the client asks for (SNI).

use std::{fmt, sync::Arc};

use rustls::{
    ServerConfig,
    client::verify_server_name,
    pki_types::ServerName,
    server::{ClientHello, ParsedCertificate, ResolvesServerCert},
    sign::CertifiedKey,
};
use x509_parser::extensions::GeneralName;

use crate::{KeyPair, ServerOptions, TlsError, config::certified_key, inspect::has_alternative_name};

/// A certificate chain with its key, ready for handshakes.
#[derive(Clone)]
pub struct ServerCertificate(Arc<CertifiedKey>);

/// Creates a configuration that asks `candidates` for the certificates of each connection, with the name that the client asks for.
/// The client gets the first one with a type of key that it can check. Certificates can be replaced at any time: open connections
/// do not change.
pub fn server_config_by_name(
    options: &ServerOptions,
    candidates: impl Fn(Option<&str>) -> Vec<ServerCertificate> + Send + Sync + 'static,
) -> Result<Arc<ServerConfig>, TlsError> {
    options.config(Arc::new(ByName(candidates)))
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
        let is_it = |known: &GeneralName<'_>| matches!(known, GeneralName::DNSName(dns) if dns.eq_ignore_ascii_case(name));
        self.0.cert.first().is_some_and(|leaf| has_alternative_name(leaf, is_it))
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
    F: Fn(Option<&str>) -> Vec<ServerCertificate> + Send + Sync,
{
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_known = |certificate: &ServerCertificate| {
            certificate.0.key.choose_scheme(hello.signature_schemes()).is_some()
        };
        let mut candidates = (self.0)(hello.server_name()).into_iter();
        candidates.find(is_known).map(|certificate| certificate.0)
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, PKCS_ECDSA_P256_SHA256, PKCS_ED25519};
    use rustls::{
        ClientConfig, ClientConnection, RootCertStore, ServerConnection, SignatureScheme,
        crypto::{WebPkiSupportedAlgorithms, ring},
        pki_types::CertificateDer,
    };

    use super::*;

    const NAME: &str = "a.example.com";

    /// Returns the certificate that a client gets that can check only one type of signature.
    fn received(
        server: &Arc<ServerConfig>,
        roots: &RootCertStore,
        scheme: SignatureScheme,
    ) -> Option<CertificateDer<'static>> {
        let mut provider = ring::default_provider();
        let all = provider.signature_verification_algorithms;
        let only: Vec<_> = all.mapping.iter().copied().filter(|(known, _)| *known == scheme).collect();
        provider.signature_verification_algorithms =
            WebPkiSupportedAlgorithms { mapping: Box::leak(only.into_boxed_slice()), ..all };
        let client = ClientConfig::builder_with_provider(Arc::new(provider));
        let client = client.with_safe_default_protocol_versions().unwrap();
        let client = client.with_root_certificates(roots.clone()).with_no_client_auth();
        let mut client =
            ClientConnection::new(Arc::new(client), ServerName::try_from(NAME).unwrap()).unwrap();
        let mut server = ServerConnection::new(server.clone()).unwrap();
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        server.read_tls(&mut &bytes[..]).unwrap();
        server.process_new_packets().ok()?;
        bytes.clear();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        client.read_tls(&mut &bytes[..]).unwrap();
        client.process_new_packets().unwrap();
        client.peer_certificates().map(|chain| chain[0].clone().into_owned())
    }

    #[test]
    fn a_client_gets_the_first_certificate_whose_key_it_can_check() {
        crate::install_default_provider();
        let mut roots = RootCertStore::empty();
        let issued: Vec<_> = [&PKCS_ECDSA_P256_SHA256, &PKCS_ED25519]
            .into_iter()
            .map(|algorithm| {
                let key = rcgen::KeyPair::generate_for(algorithm).unwrap();
                let signed = CertificateParams::new([NAME.to_owned()]).unwrap().self_signed(&key).unwrap();
                roots.add(signed.der().clone()).unwrap();
                let pair = KeyPair { certificate_pem: signed.pem(), key_pem: key.serialize_pem() };
                (signed.der().clone(), ServerCertificate::new(&pair).unwrap())
            })
            .collect();
        let all: Vec<_> = issued.iter().map(|(_, certificate)| certificate.clone()).collect();
        let server = server_config_by_name(&ServerOptions::default(), move |_| all.clone()).unwrap();
        let of = |scheme| received(&server, &roots, scheme);
        assert_eq!(of(SignatureScheme::ECDSA_NISTP256_SHA256).as_ref(), Some(&issued[0].0));
        assert_eq!(of(SignatureScheme::ED25519).as_ref(), Some(&issued[1].0));
        assert_eq!(of(SignatureScheme::RSA_PSS_SHA256), None);
    }
}
