//! Errors of manifests that cannot be read.

use std::{io, path::PathBuf};

use crate::Position;

/// Manifests that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The file or folder cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The path as given.
        path: PathBuf,
        /// The operating system's reason.
        #[source]
        source: io::Error,
    },
    /// An input is larger than the limits.
    #[error("{source_name}: {what}, expected at most {most} in one input")]
    TooMuch {
        /// File, or `-`.
        source_name: String,
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        most: usize,
    },
    /// The text is not valid YAML, or a document is not a Kubernetes object.
    #[error("{source_name}:{position}: {message}")]
    Malformed {
        /// File, or `-`.
        source_name: String,
        /// Where the parser stopped, or where the document starts.
        position: Position,
        /// The parser's explanation, or what is missing.
        message: String,
    },
    /// The inputs have no objects.
    #[error("{}", no_object(inputs, hint.as_deref()))]
    Empty {
        /// The inputs as given.
        inputs: String,
        /// What to do instead, if that is known.
        hint: Option<String>,
    },
}

// === impl ManifestError ===

impl ManifestError {
    /// The file (or `-`) and the position, if the error has them.
    pub fn place(&self) -> (Option<String>, Option<Position>) {
        match self {
            Self::Read { path, .. } => (Some(path.display().to_string()), None),
            Self::TooMuch { source_name, .. } => (Some(source_name.clone()), None),
            Self::Malformed { source_name, position, .. } => (Some(source_name.clone()), Some(*position)),
            Self::Empty { .. } => (None, None),
        }
    }

    /// The problem without the position, including the message of the operating system if there is one.
    pub fn problem(&self) -> String {
        match self {
            Self::Read { source, .. } => format!("cannot be read: {source}"),
            Self::TooMuch { what, most, .. } => format!("{what}, expected at most {most} in one input"),
            Self::Malformed { message, .. } => message.clone(),
            Self::Empty { inputs, hint } => no_object(inputs, hint.as_deref()),
        }
    }
}

fn no_object(inputs: &str, hint: Option<&str>) -> String {
    let hint = hint.map_or_else(String::new, |hint| format!(": {hint}"));
    format!("no Kubernetes object in {inputs}{hint}")
}
