//! Checks whether this machine can serve a model, before the weights are read or fetched.

use std::path::Path;

use crate::{
    LoadError,
    args::DEFAULT_CACHE_BYTES,
    memory,
    model::Config,
    pooling::PoolingConfig,
    weights::{Safetensors, Weights},
};

/// Checks a model by its headers, with the default size of the KV cache. Returns a short description of the model. `weights`
/// is the size in bytes of weights that are not fetched yet; then a folder with only `config.json` is enough.
pub fn check(path: &Path, weights: Option<u64>) -> Result<String, LoadError> {
    let opened = match weights {
        Some(_) => Weights::Safetensors(Safetensors::open(path, &[])?),
        None => Weights::open(path)?,
    };
    let config = Config::of(&opened)?;
    let folder = if path.is_file() { path.parent().unwrap_or(path) } else { path };
    let purpose = if PoolingConfig::of(folder, &opened)?.is_some() { ", for embeddings" } else { "" };
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
