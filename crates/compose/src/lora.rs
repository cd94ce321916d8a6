//! The LoRA adapters of a composed spec.

use longboat_api::{lora_paths::mount_paths, v1alpha2::LLMInferenceServiceSpec};
use longboat_download::address::{Address, Scheme};
use serde_json::Value;

use crate::error::{ComposeError, LORA_DOCS};

/// An adapter to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adapter {
    /// The model name that selects the adapter.
    pub name: String,
    /// The location of its weights.
    pub address: Address,
    /// How its weights get to the server.
    pub source: AdapterSource,
    /// The folder in which the server finds them.
    pub mount_path: String,
}

/// How an adapter's weights get to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdapterSource {
    /// Downloaded by the storage initializer.
    Download,
    /// Mounted from a persistent volume claim.
    Claim,
}

/// Returns the adapters of a composed spec, sorted by name.
///
/// # Errors
/// If the weights of an adapter cannot be brought to the server, or if adapters would share a folder.
pub fn adapters(spec: &LLMInferenceServiceSpec) -> Result<Vec<Adapter>, ComposeError> {
    let enabled = spec.storage_initializer_enabled();
    let sources = spec.adapters().iter().map(|adapter| {
        let name = adapter.name.as_deref().unwrap_or_default();
        let address = adapter.uri.address();
        match source(&address, enabled) {
            Ok(source) => Ok((name, address, source)),
            Err(problem) => Err(ComposeError::Adapter { name: name.to_owned(), problem }),
        }
    });
    let mut sources = sources.collect::<Result<Vec<_>, _>>()?;
    sources.sort_by(|a, b| a.0.cmp(b.0));
    let names: Vec<&str> = sources.iter().map(|(name, ..)| *name).collect();
    let paths = mount_paths(&names).map_err(ComposeError::LoraMountPathCollision)?;
    let adapters = sources.into_iter().zip(paths).map(|((name, address, source), mount_path)| Adapter {
        name: name.to_owned(),
        address,
        source,
        mount_path,
    });
    Ok(adapters.collect())
}

/// Whether a spec in JSON has adapters.
pub(crate) fn has_adapters(spec: &Value) -> bool {
    spec.pointer("/model/lora/adapters")
        .and_then(Value::as_array)
        .is_some_and(|adapters| !adapters.is_empty())
}

fn source(address: &Address, storage_initializer: bool) -> Result<AdapterSource, String> {
    let text = address.as_str();
    match address.scheme() {
        Scheme::Absent => Err(format!("invalid URI {text:?}")),
        Scheme::HuggingFace | Scheme::S3 if !storage_initializer => Err(format!(
            "hf:// and s3:// require the storage initializer — set storageInitializer.enabled to true (see {LORA_DOCS})"
        )),
        Scheme::HuggingFace | Scheme::S3 => Ok(AdapterSource::Download),
        Scheme::Claim if !storage_initializer => Err(format!(
            "pvc:// requires a mounted volume — do not set storageInitializer.enabled to false (see {LORA_DOCS})"
        )),
        Scheme::Claim if address.host().is_empty() => {
            Err(format!("invalid URI {text:?}: missing PVC claim name"))
        }
        Scheme::Claim => Ok(AdapterSource::Claim),
        Scheme::Oci => Err(format!(
            "oci:// is not supported for LoRA adapters; use hf://, s3://, or pvc:// instead (see {LORA_DOCS})"
        )),
        _ => Err(format!(
            "unsupported URI scheme \"{}\"; supported schemes are hf://, s3://, pvc:// (see {LORA_DOCS})",
            &text[..text.len() - address.rest().len()]
        )),
    }
}
