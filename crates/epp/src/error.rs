//! Why the picker does not start, or stopped.

use std::{net::SocketAddr, path::PathBuf};

use longboat_scheduler::ConfigError;
use longboat_tls::TlsError;

use crate::args::ArgsError;

/// Why the picker does not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The tokenizer's address cannot be used.
    #[error("the tokenizer address \"{url}\" is invalid: {message}")]
    Tokenizer {
        /// The address.
        url: String,
        /// What is wrong with it.
        message: String,
    },
    /// An environment variable cannot be used.
    #[error("variable {variable} is \"{value}\": {expected}")]
    Variable {
        /// Its name.
        variable: &'static str,
        /// Its value.
        value: String,
        /// What was expected.
        expected: String,
    },
    /// The flags cannot be used together.
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
    /// The trace of requests cannot begin.
    #[error("cannot write the trace of requests to {}", path.display())]
    Trace {
        /// Its file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The configuration is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The scheme of the metrics is neither HTTP nor HTTPS.
    #[error("--model-server-metrics-scheme must be http or https, not \"{0}\"")]
    Scheme(String),
    /// The scrape interval is not a duration.
    #[error("interval of metrics-data-source: {0}")]
    Interval(String),
    /// There is neither a cluster nor a discovery file.
    #[error("no source of endpoints: connect to a cluster, or configure a file-discovery plugin")]
    NoSource,
    /// The client of the API server cannot be created.
    #[error("cannot connect to the cluster")]
    Cluster(#[source] kube::Error),
    /// A port cannot be bound.
    #[error("cannot listen on {address}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A certificate is not usable.
    #[error("cannot set up TLS")]
    Tls(#[source] TlsError),
    /// A task that keeps the picker's state current panicked.
    #[error("a task of the picker failed")]
    Task(#[source] tokio::task::JoinError),
    /// A thread of the ext_proc server could not be started.
    #[error("cannot start a thread for the connections of the ext_proc server")]
    Serve(#[source] std::io::Error),
}
