//! What can go wrong with certificates.

use std::path::PathBuf;

/// A certificate could not be made, read or used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Key generation or signing failed.
    #[error("cannot issue a certificate for `{subject}`")]
    Issue {
        /// Common name of the certificate that was asked for.
        subject: String,
        /// What the signing library said.
        #[source]
        source: rcgen::Error,
    },
    /// A PEM text holds no usable certificate or key.
    #[error("no usable {what} in the PEM text")]
    Pem {
        /// `certificate` or `private key`.
        what: &'static str,
    },
    /// rustls refuses the combination, e.g. a key that does not belong to the certificate.
    #[error("certificate and key cannot be used together")]
    Rustls(#[from] rustls::Error),
    /// `tls.crt` or `tls.key` cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        #[source]
        source: std::io::Error,
    },
    /// A client that must verify its peer was given no CA: public roots are not built in.
    #[error("no CA certificate to verify the server with")]
    NoRoots,
}
