//! Why a model cannot be loaded.

use std::{io, path::PathBuf};

/// A model that cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The folder contains no weights in a supported format.
    #[error(
        "`{}` has no model: expected one `*.gguf` file, or `config.json` with `*.safetensors` files", path.display()
    )]
    NoWeights {
        /// The folder.
        path: PathBuf,
    },
    /// A file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// The content of a file does not have the expected format.
    #[error("`{}`: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what was expected.
        reason: String,
    },
    /// The model needs a feature that the engine does not have.
    #[error("`{}`: {what} is not supported by this engine", path.display())]
    Unsupported {
        /// The file that says so.
        path: PathBuf,
        /// What is not supported.
        what: String,
    },
    /// The computing threads cannot be started.
    #[error("cannot start the compute threads")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    /// An adapter cannot be loaded.
    #[error("LoRA adapter `{name}`: {reason}")]
    Adapter {
        /// Its name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// `--max-model-len` is above a limit.
    #[error("--max-model-len {max_model_len} is above the limit of {of}, {limit} tokens")]
    Context {
        /// The value of `--max-model-len`.
        max_model_len: usize,
        /// The most tokens.
        limit: usize,
        /// The thing that has this limit.
        of: &'static str,
    },
    /// The machine has too little memory.
    #[error(
        "the model needs {needed} MiB (weights {weights} MiB, KV cache {cache} MiB), but only {available} \
         MiB are available: use a smaller model, or lower `--kv-cache-memory-bytes`"
    )]
    Memory {
        /// The needed memory, in MiB.
        needed: u64,
        /// The weights, in MiB.
        weights: u64,
        /// The KV cache, in MiB.
        cache: u64,
        /// The available memory, in MiB.
        available: u64,
    },
}

// === impl LoadError ===

impl LoadError {
    pub(crate) fn malformed(path: impl Into<PathBuf>, reason: impl Into<String>) -> Self {
        Self::Malformed { path: path.into(), reason: reason.into() }
    }

    pub(crate) fn unsupported(path: impl Into<PathBuf>, what: impl Into<String>) -> Self {
        Self::Unsupported { path: path.into(), what: what.into() }
    }
}
