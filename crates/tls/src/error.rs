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
    /// The key is that of another certificate.
    #[error("the private key does not match the certificate")]
    KeyMismatch,
    /// There is no algorithm for this kind of key.
    #[error(
        "{kind} is not supported: use ECDSA on the curve P-256 or P-384, Ed25519, or RSA with 2048 to {max_rsa_bits} bits"
    )]
    UnsupportedKey {
        /// The kind of the key.
        kind: String,
        /// The longest RSA key that is supported for this use.
        max_rsa_bits: usize,
    },
    /// rustls refuses a certificate or the options.
    #[error(transparent)]
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
