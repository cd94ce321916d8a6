//! The LoRA adapters of a composed spec.

use longboat_api::v1alpha2::LLMInferenceServiceSpec;

use crate::error::{ComposeError, LORA_DOCS};

/// The folder with one subfolder per adapter.
const MOUNT_ROOT: &str = "/mnt/lora";

/// An adapter to serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adapter {
    /// The model name that selects the adapter.
    pub name: String,
    /// The location of its weights.
    pub uri: String,
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
/// If the weights of an adapter cannot be brought to the server.
pub fn adapters(spec: &LLMInferenceServiceSpec) -> Result<Vec<Adapter>, ComposeError> {
    let Some(lora) = &spec.model.lora else { return Ok(Vec::new()) };
    let enabled = spec.storage_initializer_enabled();
    let mut adapters = lora
        .adapters
        .iter()
        .map(|adapter| {
            let name = adapter.name.clone().unwrap_or_default();
            let uri = adapter.uri.as_str();
            match source(uri, enabled) {
                Ok(source) => Ok(Adapter {
                    mount_path: format!("{MOUNT_ROOT}/{}", segment(&name)),
                    uri: uri.to_owned(),
                    source,
                    name,
                }),
                Err(problem) => Err(ComposeError::Adapter { name, problem }),
            }
        })
        .collect::<Result<Vec<_>, _>>()?;
    adapters.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(adapters)
}

fn source(uri: &str, storage_initializer: bool) -> Result<AdapterSource, String> {
    let Some((scheme, _)) = uri.split_once("://") else {
        return Err(format!("invalid URI {uri:?}"));
    };
    match scheme {
        "hf" | "s3" if !storage_initializer => Err(format!(
            "hf:// and s3:// require the storage initializer — set storageInitializer.enabled to true (see {LORA_DOCS})"
        )),
        "hf" | "s3" => Ok(AdapterSource::Download),
        "pvc" if !storage_initializer => Err(format!(
            "pvc:// requires a mounted volume — do not set storageInitializer.enabled to false (see {LORA_DOCS})"
        )),
        "pvc" => Ok(AdapterSource::Claim),
        "oci" => Err(format!(
            "oci:// is not supported for LoRA adapters; use hf://, s3://, or pvc:// instead (see {LORA_DOCS})"
        )),
        _ => Err(format!(
            "unsupported URI scheme \"{scheme}://\"; supported schemes are hf://, s3://, pvc:// (see {LORA_DOCS})"
        )),
    }
}

/// Converts a name to a single path segment.
fn segment(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let segment: String = name.chars().map(safe).collect();
    match segment.as_str() {
        "" | "." | ".." => "adapter".to_owned(),
        _ => segment,
    }
}
