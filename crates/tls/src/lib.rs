//! Certificates and TLS configuration: certificate authorities, ECDSA leaf certificates, and reload on change.
//!
//! Everything uses rustls with the ring provider. Call [`install_default_provider`] first in a process.

mod accept_any;
mod by_name;
mod cause;
mod config;
mod error;
mod handshake;
mod inspect;
mod issue;
mod options;
mod peer_names;
mod reload;
mod reloading_roots;
mod roots;
mod signatures;

pub use by_name::{ServerCertificate, server_config_by_name};
pub use cause::{chain, innermost, tls_error};
pub use config::{client_config, insecure_client_config, server_config, with_client_certificate};
pub use error::TlsError;
pub use handshake::{accept, handshake};
pub use inspect::{CertificateInfo, certificates};
pub use issue::{CertificateAuthority, KeyPair, LeafRequest, Validity, self_signed, self_signed_with_key};
pub use options::{ClientCertificates, MinVersion, ServerOptions, Suite, UnknownName};
pub use peer_names::{PeerName, client_config_for_names};
pub use reload::{KeyPairFiles, ReplaceableConfig};
pub use reloading_roots::ReloadingRoots;
pub use roots::{environment_client_config, extended_client_config};

/// Makes ring the process-wide rustls provider. Later calls do nothing.
pub fn install_default_provider() {
    // An error means that a provider is already installed, as the caller wants.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
