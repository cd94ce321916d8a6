//! Whether this machine can serve a model, asked before the weights are read or even fetched.

use std::path::Path;

use crate::{
    LoadError,
    args::DEFAULT_CACHE_BYTES,
    memory,
    model::Config,
    pooling::Made,
    weights::{Safetensors, Weights},
};

/// Judges a model by its headers, with the KV cache that is the default, and says in a few words what it is. With `weights`, the
/// size of weights in bytes that are not here, a folder with `config.json` alone is enough.
pub fn check(path: &Path, weights: Option<u64>) -> Result<String, LoadError> {
    let opened = match weights {
        Some(_) => Weights::Safetensors(Safetensors::open(path, &[])?),
        None => Weights::open(path)?,
    };
    let config = Config::of(&opened)?;
    let folder = if path.is_file() { path.parent().unwrap_or(path) } else { path };
    let purpose = if Made::of(folder, &opened)?.is_some() { ", for embeddings" } else { "" };
    let weights = weights.unwrap_or_else(|| opened.memory(false));
    memory::check(weights, DEFAULT_CACHE_BYTES as u64)?;
    Ok(format!(
        "{}{purpose}, {} layers, {} MB of weights, {} MB of KV cache",
        config.architecture,
        config.layers,
        weights / 1_000_000,
        DEFAULT_CACHE_BYTES / 1_000_000
    ))
}
