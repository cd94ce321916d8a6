//! The errors that prevent a node from starting.

use std::io;
use std::path::PathBuf;

/// A failure to start the node. Later failures appear on the pod that they concern.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// A folder or file of the state directory cannot be written.
    #[error("cannot prepare {path}")]
    StateDir {
        /// The path to write.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The helper process that cleans up after a killed node did not start.
    #[error("cannot start the reaper ({command})")]
    Reaper {
        /// The command that was run.
        command: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The Node object cannot be written.
    #[error("cannot register the node {name}")]
    Register {
        /// The node's name.
        name: String,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
    /// The value of an option is invalid.
    #[error("{0}")]
    Options(String),
}
