//! Certificates and TLS configuration: an own CA, ECDSA leaves, reload on change.
//!
//! Everything uses rustls with the ring provider; call [`install_default_provider`] first thing in a process.

mod config;
mod error;
mod issue;
mod reload;

pub use config::{client_config, insecure_client_config, server_config};
pub use error::TlsError;
pub use issue::{CertificateAuthority, KeyPair, LeafRequest, self_signed};
pub use reload::Reloading;

/// Makes ring the process-wide rustls provider. Later calls change nothing.
pub fn install_default_provider() {
    // An Err means that a provider is installed already, which is what the caller wants.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
