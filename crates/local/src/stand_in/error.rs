//! Why missing objects have no substitutes.

use crate::apply::ApplyError;

/// Why substitutes cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum StandInError {
    /// This machine has no substitute for a missing object.
    #[error("{origin}: {sentence}")]
    Impossible {
        /// File, line and column of the reference.
        origin: String,
        /// What is missing, and how to solve it.
        sentence: String,
    },
    /// The existing objects cannot be read.
    #[error("cannot read the existing objects: {0}")]
    Read(#[from] kube::Error),
    /// The server refused a substitute.
    #[error(transparent)]
    Apply(#[from] ApplyError),
}
