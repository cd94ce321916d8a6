//! How an embedding model combines the hidden states of a text's tokens into one vector.

use std::path::Path;

use serde_json::Value as Json;

use crate::{
    LoadError,
    weights::{Value, Weights, files},
};

/// The tokens that the vector comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pooling {
    First,
    Last,
    Mean,
}

/// The pooling of an embedding model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolingConfig {
    pub(crate) pooling: Pooling,
    pub(crate) normalises: bool,
}

impl PoolingConfig {
    /// vLLM's default for a model that does not define its pooling.
    pub(crate) const DEFAULT: Self = Self { pooling: Pooling::Last, normalises: true };

    /// Reads the pooling of a model. Returns `None` if it is not an embedding model.
    pub(crate) fn of(folder: &Path, weights: &Weights) -> Result<Option<Self>, LoadError> {
        match weights {
            Weights::Gguf(file) => {
                let architecture = file.get("general.architecture").and_then(Value::text).unwrap_or_default();
                let pooling = match file.get(&format!("{architecture}.pooling_type")).and_then(Value::size) {
                    None | Some(0) => return Ok(None),
                    Some(1) => Pooling::Mean,
                    Some(2) => Pooling::First,
                    Some(3) => Pooling::Last,
                    Some(other) => {
                        let what = format!("`{architecture}.pooling_type` {other}");
                        return Err(LoadError::unsupported(file.path(), what));
                    }
                };
                Ok(Some(Self { pooling, normalises: true }))
            }
            Weights::Safetensors(_) => Self::of_modules(folder),
        }
    }

    /// Reads the list of modules that sentence-transformers writes.
    fn of_modules(folder: &Path) -> Result<Option<Self>, LoadError> {
        let path = folder.join("modules.json");
        if !path.is_file() {
            return Ok(None);
        }
        let modules = files::json(&path)?;
        let malformed = |reason: &str| LoadError::malformed(&path, reason);
        let modules = modules.as_array().ok_or_else(|| malformed("expected a list of modules"))?;
        let (mut pooling, mut normalises) = (None, false);
        for module in modules {
            let kind = module["type"].as_str().unwrap_or_default();
            match kind.rsplit('.').next().unwrap_or_default() {
                "Transformer" => {}
                "Normalize" => normalises = true,
                "Pooling" => {
                    let within = module["path"].as_str().unwrap_or_default();
                    // The path must be a plain name, so that no file outside of the folder is read.
                    if within.is_empty() || within.contains(['/', '\\']) || within.starts_with('.') {
                        return Err(malformed("the path of the pooling module is not a folder name"));
                    }
                    let settings = folder.join(within).join("config.json");
                    pooling = Some(mode(&settings, &files::json(&settings)?)?);
                }
                _ => {
                    let what = format!("the module `{}`", kind.chars().take(80).collect::<String>());
                    return Err(LoadError::unsupported(&path, what));
                }
            }
        }
        Ok(pooling.map(|pooling| Self { pooling, normalises }))
    }
}

/// Returns the only enabled mode.
fn mode(path: &Path, settings: &Json) -> Result<Pooling, LoadError> {
    let modes = settings.as_object().into_iter().flatten();
    let on: Vec<&str> = modes
        .filter(|(key, value)| key.starts_with("pooling_mode_") && **value == true)
        .map(|(key, _)| key.as_str())
        .collect();
    match on.as_slice() {
        ["pooling_mode_cls_token"] => Ok(Pooling::First),
        ["pooling_mode_lasttoken"] => Ok(Pooling::Last),
        ["pooling_mode_mean_tokens"] => Ok(Pooling::Mean),
        [] => Err(LoadError::malformed(path, "no `pooling_mode_…` is true")),
        modes => {
            let names = modes.iter().map(|name| name.chars().take(80).collect::<String>());
            let what = format!("`{}`", names.collect::<Vec<_>>().join("` with `"));
            Err(LoadError::unsupported(path, what))
        }
    }
}
