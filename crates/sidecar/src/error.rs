//! Why the sidecar cannot start.

use std::net::SocketAddr;

/// Why the sidecar cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An invalid flag, or an invalid combination of flags, also in a document of `--configuration`.
    #[error("--{flag}: {message}")]
    Flag {
        /// The flag without dashes.
        flag: &'static str,
        /// What is wrong with the value, and what is expected.
        message: String,
    },
    /// The address is in use or not on this machine.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The certificate cannot be used.
    #[error("cannot serve TLS")]
    Tls(#[from] longboat_tls::TlsError),
    /// The allow-list needs a connection to a cluster.
    #[error("--enable-ssrf-protection needs the API server: run in a pod, or set KUBECONFIG")]
    Cluster(#[source] kube::Error),
}

impl Error {
    /// A flag that is invalid, or cannot be used with the others.
    pub(crate) fn flag(flag: &'static str, message: impl Into<String>) -> Self {
        Self::Flag { flag, message: message.into() }
    }

    /// Refuses a flag if a condition is not met.
    pub(crate) fn require(is_met: bool, flag: &'static str, message: &str) -> Result<(), Self> {
        if is_met { Ok(()) } else { Err(Self::flag(flag, message)) }
    }
}
