//! Why the sidecar cannot start.

use std::net::SocketAddr;

/// Why the sidecar cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A flag, or a combination of flags, that cannot be.
    #[error("--{flag}: {message}")]
    Flag {
        /// The flag without dashes.
        flag: &'static str,
        /// What is wrong with its value, and what to give instead.
        message: String,
    },
    /// The document given by `--configuration` or `--configuration-file`.
    #[error("--{flag}: {message}")]
    Configuration {
        /// Which of the two.
        flag: &'static str,
        /// What is wrong with it.
        message: String,
    },
    /// The address is taken or not ours.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where it was to listen.
        address: SocketAddr,
        /// The operating system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The certificate cannot be used.
    #[error("cannot serve TLS")]
    Tls(#[from] longboat_tls::TlsError),
    /// The allow-list needs a cluster.
    #[error("--enable-ssrf-protection needs the API server: run in a pod, or set KUBECONFIG")]
    Cluster(#[source] kube::Error),
}
