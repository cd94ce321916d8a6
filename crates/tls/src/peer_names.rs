//! Clients that accept servers by other names than the one that they ask for.

use std::sync::Arc;

use rustls::{
    ClientConfig, Error, RootCertStore,
    client::{
        danger::{ServerCertVerified, ServerCertVerifier},
        verify_server_cert_signed_by_trust_anchor, verify_server_name,
    },
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};
use x509_parser::extensions::GeneralName;

use crate::{
    TlsError, check_signatures,
    config::{owned, roots},
    inspect::has_alternative_name,
};

/// A name of a server in its certificate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PeerName {
    /// A DNS name, which may begin with `*.` in the certificate.
    Dns(String),
    /// A URI, such as a SPIFFE id.
    Uri(String),
}

/// Creates a client configuration that trusts the CAs in `ca_pem` and accepts a certificate with one of `names`, whatever name
/// the client asks for.
pub fn client_config_for_names(
    ca_pem: &str,
    names: Vec<PeerName>,
    alpn: &[&[u8]],
) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = NamedPeer { roots: roots(ca_pem)?, names, provider };
    let mut config = ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = owned(alpn);
    Ok(Arc::new(config))
}

#[derive(Debug)]
struct NamedPeer {
    roots: RootCertStore,
    names: Vec<PeerName>,
    provider: Arc<CryptoProvider>,
}

// === impl NamedPeer ===

impl NamedPeer {
    fn names(&self, certificate: &CertificateDer<'_>, parsed: &ParsedCertificate<'_>) -> bool {
        self.names.iter().any(|name| match name {
            PeerName::Dns(name) => ServerName::try_from(name.as_str())
                .is_ok_and(|name| verify_server_name(parsed, &name).is_ok()),
            PeerName::Uri(uri) => has_alternative_name(
                certificate,
                |known| matches!(known, GeneralName::URI(known) if known == uri),
            ),
        })
    }
}

impl ServerCertVerifier for NamedPeer {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // What rustls' own verifier does, apart from the name.
        let parsed = ParsedCertificate::try_from(end_entity)?;
        let algorithms = self.provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, intermediates, now, algorithms)?;
        if self.names(end_entity, &parsed) {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(rustls::CertificateError::NotValidForName.into())
        }
    }

    check_signatures!(provider);
}
