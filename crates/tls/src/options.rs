//! TLS options of a server: protocol versions, cipher suites, application protocols.

use std::{str::FromStr, sync::Arc};

use rustls::{
    CipherSuite, ConfigBuilder, ServerConfig, SupportedProtocolVersion, WantsVerifier,
    crypto::{CryptoProvider, ring},
    server::{ResolvesServerCert, WantsServerCert, WebPkiClientVerifier},
    version::{TLS12, TLS13},
};

use crate::{
    TlsError,
    accept_any::AcceptAny,
    config::{owned, roots},
};

/// TLS options of a server. The default is TLS 1.2 and 1.3 with every suite, and no application protocol.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerOptions {
    /// Oldest protocol version.
    pub min_version: MinVersion,
    /// Cipher suites of TLS 1.2; empty for all. Those of TLS 1.3 cannot be chosen, as in Go.
    pub cipher_suites: Vec<Suite>,
    /// Application protocols, for instance `h2` and `http/1.1`.
    pub alpn: Vec<Vec<u8>>,
    /// Which certificates clients need.
    pub clients: ClientCertificates,
}

/// Which certificates the clients of a server need.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// None, and they are not asked for one.
    #[default]
    None,
    /// None. They are asked for one, and may show any.
    Any,
    /// One that is signed by one of these CA certificates (PEM).
    SignedBy(Arc<str>),
}

/// Oldest protocol version, with the names in Kubernetes' flags.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MinVersion {
    /// `VersionTLS12`.
    #[default]
    Tls12,
    /// `VersionTLS13`.
    Tls13,
}

/// A cipher suite, with its name in Go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Suite(CipherSuite);

/// The text of a flag has no known name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownName {
    /// No such version.
    #[error("unknown TLS version \"{0}\", expected VersionTLS12 or VersionTLS13")]
    Version(String),
    /// No such suite.
    #[error("unknown cipher suite \"{0}\", expected some of {expected}", expected = Suite::names().join(", "))]
    Suite(String),
}

/// Names of suites in Go.
const SUITES: [(&str, CipherSuite); 11] = [
    ("TLS_AES_128_GCM_SHA256", CipherSuite::TLS13_AES_128_GCM_SHA256),
    ("TLS_AES_256_GCM_SHA384", CipherSuite::TLS13_AES_256_GCM_SHA384),
    ("TLS_CHACHA20_POLY1305_SHA256", CipherSuite::TLS13_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

// === impl ServerOptions ===

impl ServerOptions {
    /// Returns the default options with these application protocols.
    pub fn with_alpn(alpn: &[&[u8]]) -> Self {
        Self { alpn: owned(alpn), ..Self::default() }
    }

    /// Creates a configuration with the certificates from `certificate`.
    pub(crate) fn config(
        &self,
        certificate: Arc<dyn ResolvesServerCert>,
    ) -> Result<Arc<ServerConfig>, TlsError> {
        let mut config = self.builder()?.with_cert_resolver(certificate);
        config.alpn_protocols.clone_from(&self.alpn);
        Ok(Arc::new(config))
    }

    fn builder(&self) -> Result<ConfigBuilder<ServerConfig, WantsServerCert>, TlsError> {
        let mut provider: CryptoProvider = ring::default_provider();
        if !self.cipher_suites.is_empty() {
            provider.cipher_suites.retain(|suite| {
                suite.version() == &TLS13 || self.cipher_suites.contains(&Suite(suite.suite()))
            });
        }
        let versions: &[&SupportedProtocolVersion] = match self.min_version {
            MinVersion::Tls12 => &[&TLS13, &TLS12],
            MinVersion::Tls13 => &[&TLS13],
        };
        let provider = Arc::new(provider);
        let builder: ConfigBuilder<ServerConfig, WantsVerifier> =
            ServerConfig::builder_with_provider(Arc::clone(&provider)).with_protocol_versions(versions)?;
        let pem = match &self.clients {
            ClientCertificates::None => return Ok(builder.with_no_client_auth()),
            ClientCertificates::Any => {
                return Ok(builder.with_client_cert_verifier(Arc::new(AcceptAny(provider))));
            }
            ClientCertificates::SignedBy(pem) => pem,
        };
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(pem)?), provider)
            .build()
            .map_err(|_| TlsError::Pem { what: "CA certificate of clients" })?;
        Ok(builder.with_client_cert_verifier(verifier))
    }
}

// === impl MinVersion ===

impl FromStr for MinVersion {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            // An empty text means an absent flag.
            "" | "VersionTLS12" => Ok(Self::Tls12),
            "VersionTLS13" => Ok(Self::Tls13),
            other => Err(UnknownName::Version(other.to_owned())),
        }
    }
}

// === impl Suite ===

impl Suite {
    fn names() -> Vec<&'static str> {
        SUITES.iter().map(|(name, _)| *name).collect()
    }
}

impl FromStr for Suite {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = SUITES.iter().find(|(name, _)| *name == text);
        known.map(|(_, suite)| Self(*suite)).ok_or_else(|| UnknownName::Suite(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_kubernetes_flags_are_read() {
        assert_eq!("VersionTLS13".parse(), Ok(MinVersion::Tls13));
        assert_eq!("VersionTLS11".parse::<MinVersion>(), Err(UnknownName::Version("VersionTLS11".into())));
        assert!("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256".parse::<Suite>().is_ok());
        // Go knows this suite, but it is not safe and so refused.
        assert!("TLS_RSA_WITH_AES_128_CBC_SHA".parse::<Suite>().is_err());
    }

    #[test]
    fn only_the_suites_that_were_named_are_offered_beside_those_of_tls_1_3() {
        let options = ServerOptions {
            cipher_suites: vec!["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256".parse().unwrap()],
            ..ServerOptions::default()
        };
        let builder = options.builder().unwrap();
        let offered: Vec<_> =
            builder.crypto_provider().cipher_suites.iter().map(rustls::SupportedCipherSuite::suite).collect();
        assert_eq!(offered.len(), 4);
        assert!(offered.contains(&CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256));
    }
}
