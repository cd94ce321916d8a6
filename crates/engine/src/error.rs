//! Why a model cannot be loaded.

use std::{io, path::PathBuf};

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
