//! Why a model cannot be loaded.

use std::{io, path::PathBuf};

use crate::lora::AdapterError;

/// A model that cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The folder holds no weights in a format that the engine reads.
    #[error(
        "`{}` holds no model: expected one `*.gguf` file, or `config.json` with `*.safetensors` files", path.display()
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
        /// The operating system's reason.
        #[source]
        source: io::Error,
    },
    /// A file is not what its name says.
    #[error("`{}`: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, and what was expected.
        reason: String,
    },
    /// The model needs something that the engine does not have.
    #[error("`{}`: {what} is not supported by this engine", path.display())]
    Unsupported {
        /// The file that says so.
        path: PathBuf,
        /// What is not supported.
        what: String,
    },
    /// The threads that compute cannot be had.
    #[error("cannot start the threads that compute")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    /// An adapter cannot be loaded.
    #[error("LoRA adapter `{name}`: {reason}")]
    Adapter {
        /// Its name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// More tokens were asked for than can be computed.
    #[error("--max-model-len {asked} is above the limit of {of}, {limit} tokens")]
    Context {
        /// What `--max-model-len` says.
        asked: usize,
        /// The most tokens.
        limit: usize,
        /// What has this limit.
        of: &'static str,
    },
    /// The machine has too little memory.
    #[error(
        "the model needs {needed} MiB (weights {weights} MiB, KV cache {cache} MiB), {available} MiB are available: \
         choose a smaller model, or lower `--kv-cache-memory-bytes`"
    )]
    Memory {
        /// All that is needed, in MiB.
        needed: u64,
        /// The weights, in MiB.
        weights: u64,
        /// The KV cache, in MiB.
        cache: u64,
        /// What the machine has left, in MiB.
        available: u64,
    },
}

// === impl LoadError ===

impl LoadError {
    /// The same, of an adapter.
    pub(crate) fn adapter(name: &str, error: AdapterError) -> Self {
        match error {
            AdapterError::Unusable(Self::Read { path, source }) => Self::Read { path, source },
            error => Self::Adapter { name: name.to_owned(), reason: error.to_string() },
        }
    }
}
