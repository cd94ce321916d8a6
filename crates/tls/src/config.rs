//! rustls configurations for the servers and clients of this project.

use std::sync::Arc;

use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::{CertifiedKey, SingleCertAndKey},
};

use crate::{KeyPair, ServerOptions, TlsError, accept_any::AcceptAny, inspect::unsupported_key};

/// Creates a server configuration with `pair` and `alpn` (for instance `[b"h2", b"http/1.1"]`), without client certificates.
pub fn server_config(pair: &KeyPair, alpn: &[&[u8]]) -> Result<Arc<ServerConfig>, TlsError> {
    ServerOptions::with_alpn(alpn).config(Arc::new(SingleCertAndKey::from(certified_key(pair)?)))
}

/// Creates a client configuration that trusts exactly the certificates in `ca_pem`.
pub fn client_config(ca_pem: &str, alpn: &[&[u8]]) -> Result<Arc<ClientConfig>, TlsError> {
    let mut config = ClientConfig::builder().with_root_certificates(roots(ca_pem)?).with_no_client_auth();
    config.alpn_protocols = owned(alpn);
    Ok(Arc::new(config))
}

/// Creates a client configuration that accepts any certificate. kubelet probes do so, and Envoy is configured so for the
/// picker, which creates a self-signed certificate when it starts. Signatures are still checked, so the peer owns the key of
/// its certificate.
pub fn insecure_client_config(alpn: &[&[u8]]) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AcceptAny(provider)))
        .with_no_client_auth();
    config.alpn_protocols = owned(alpn);
    Arc::new(config)
}

/// Returns the same configuration with a client certificate.
pub fn with_client_certificate(config: &ClientConfig, pair: &KeyPair) -> Result<Arc<ClientConfig>, TlsError> {
    let mut config = config.clone();
    config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(certified_key(pair)?));
    Ok(Arc::new(config))
}

pub(crate) fn certified_key(pair: &KeyPair) -> Result<CertifiedKey, TlsError> {
    let certificates = certificates(&pair.certificate_pem)?;
    let key = private_key(&pair.key_pem)?;
    let Ok(key) = rustls::crypto::ring::sign::any_supported_type(&key) else {
        // Whoever made the certificate knows its kind of key.
        let unsupported = certificates.first().and_then(|leaf| unsupported_key(leaf));
        return Err(unsupported.unwrap_or(TlsError::Pem { what: "private key" }));
    };
    let certified = CertifiedKey::new(certificates, key);
    // `any_supported_type` has read the key alone. With another one, every handshake would fail later.
    certified.keys_match().map_err(|_| TlsError::KeyMismatch)?;
    Ok(certified)
}

/// Returns the CAs of a PEM text.
pub(crate) fn roots(pem: &str) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem)? {
        roots.add(certificate)?;
    }
    Ok(roots)
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let list: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|_| TlsError::Pem { what: "certificate" })?;
    if list.is_empty() { Err(TlsError::Pem { what: "certificate" }) } else { Ok(list) }
}

fn private_key(pem: &str) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|_| TlsError::Pem { what: "private key" })
}

pub(crate) fn owned(alpn: &[&[u8]]) -> Vec<Vec<u8>> {
    alpn.iter().map(|protocol| protocol.to_vec()).collect()
}
