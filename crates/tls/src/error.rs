//! Errors of certificates.

use std::path::PathBuf;

/// Why a certificate cannot be created, read or used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Key generation or signing failed.
    #[error("cannot issue a certificate for `{subject}`")]
    Issue {
        /// Common name of the requested certificate.
        subject: String,
        /// The error of the signing library.
        #[source]
        source: rcgen::Error,
    },
    /// A PEM text contains no usable certificate or key.
    #[error("no usable {what} in the PEM text")]
    Pem {
        /// `certificate` or `private key`.
        what: &'static str,
    },
    /// rustls refuses the combination, e.g. a key that does not belong to the certificate.
    #[error("the private key does not match the certificate")]
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
}
