//! Why a model could not be brought.

use std::{io, path::PathBuf};

/// A failed fetch.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The scheme is not implemented.
    #[error(
        "cannot fetch `{uri}`: `{scheme}://` sources are not supported yet; use `file://` with a downloaded model"
    )]
    Unsupported {
        /// The scheme.
        scheme: String,
        /// The whole URI.
        uri: String,
    },
    /// A source is the last argument.
    #[error("`{uri}` has no destination: give sources and folders in turn")]
    NoDestination {
        /// The source.
        uri: String,
    },
    /// A file cannot be read or written.
    #[error("cannot copy `{}`", path.display())]
    Copy {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's reason.
        #[source]
        source: io::Error,
    },
}
