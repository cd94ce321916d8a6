//! Why the picker does not start, or stopped.

use std::{net::SocketAddr, path::PathBuf};

use longboat_extproc::ServeError;
use longboat_scheduler::ConfigError;
use longboat_tls::TlsError;

use crate::args::ArgsError;

/// Why the picker does not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The tokenizer's address cannot be used.
    #[error("the address of the tokenizer, \"{url}\", cannot be used: {message}")]
    Tokenizer {
        /// The address.
        url: String,
        /// What is wrong with it.
        message: String,
    },
    /// A variable of the environment cannot be used.
    #[error("variable {variable} is \"{value}\": {expected}")]
    Variable {
        /// Its name.
        variable: &'static str,
        /// Its value.
        value: String,
        /// What was expected.
        expected: String,
    },
    /// The flags make no sense together.
    #[error(transparent)]
    Args(#[from] ArgsError),
    /// A file that the configuration needs cannot be read.
    #[error("cannot read {}", path.display())]
    ConfigFile {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The configuration is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A scheme that metrics are not served by.
    #[error("--model-server-metrics-scheme must be http or https, not \"{0}\"")]
    Scheme(String),
    /// A scrape interval that is no duration.
    #[error("interval of metrics-data-source: {0}")]
    Interval(String),
    /// There is neither a cluster nor a discovery file.
    #[error("endpoints can come from a cluster or from a file-discovery plugin, and there is neither")]
    NoSource,
    /// No way to the API server.
    #[error("cannot connect to the cluster")]
    Cluster(#[source] kube::Error),
    /// A port is taken.
    #[error("cannot listen on {address}")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A certificate is not usable.
    #[error("cannot set up TLS")]
    Tls(#[source] TlsError),
    /// The ext_proc port failed.
    #[error("the ext_proc port failed")]
    Serve(#[source] ServeError),
}
