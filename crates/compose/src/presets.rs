//! The well-known configs, which are embedded in the binary.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use longboat_api::{
    foreign::servingruntime::ClusterServingRuntime,
    v1alpha2::{LLMInferenceServiceConfig, LLMInferenceServiceSpec},
};
use longboat_key::Namespace;
use serde::Deserialize;
use serde_json::Value;

use crate::pin::PresetNames;
pub use crate::select::why;

/// Files of this repository: the name of each, and its text.
macro_rules! files {
    ($folder:literal: $($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../", $folder, "/", $name, ".yaml")))),*]
    };
}

/// The presets. The file name is the suffix of the preset's name.
static FILES: [(&str, &str); 20] = files! { "presets":
    "config-llm-template",
    "config-sglang-template",
    "config-sglang-worker",
    "config-sglang-sidecar",
    "config-sglang-prefill-template",
    "config-sglang-prefill-worker",
    "config-tensorrt-llm-template",
    "config-llama-cpp-template",
    "config-llm-decode-template",
    "config-llm-worker-data-parallel",
    "config-llm-decode-worker-data-parallel",
    "config-llm-prefill-template",
    "config-llm-prefill-worker-data-parallel",
    "config-llm-scheduler",
    "config-llm-scheduler-eppconfig-default",
    "config-llm-scheduler-eppconfig-default-pd",
    "config-llm-router-route",
    "config-llm-scheduler-latency-predictor",
    "config-llm-tokenizer",
    "config-llm-tracing",
};

/// The runtimes that this build ships.
static RUNTIMES: [(&str, &str); 3] =
    files! { "runtimes": "kserve-llm-sglang", "longboat-tensorrt-llm", "longboat-llama-cpp" };

/// A preset that does not parse, which is a mistake in this build.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot parse preset {name}: {message}")]
pub struct BrokenPreset {
    /// The preset.
    pub name: &'static str,
    /// The parser's message.
    pub message: String,
}

/// Returns the presets of this build, with names for `names` and in `namespace`.
///
/// # Errors
///
/// [`BrokenPreset`]. A test of this crate ensures that this does not happen.
pub fn builtin(
    names: &PresetNames,
    namespace: Namespace<&str>,
) -> Result<Vec<LLMInferenceServiceConfig>, BrokenPreset> {
    let documents = FILES.iter().zip(documents(names, namespace)?);
    documents
        .map(|(&(name, _), document)| {
            let broken = |message: String| BrokenPreset { name, message };
            let spec = document.get("spec").ok_or_else(|| broken("no spec".to_owned()))?;
            Ok(LLMInferenceServiceConfig {
                metadata: ObjectMeta::deserialize(&document["metadata"])
                    .map_err(|e| broken(e.to_string()))?,
                spec: LLMInferenceServiceSpec::deserialize(spec).map_err(|e| broken(e.to_string()))?,
                status: None,
            })
        })
        .collect()
}

/// Returns the presets of this build as written, with names for `names` and in `namespace`. They can be written to a cluster,
/// where templates may be in fields of other types.
///
/// # Errors
///
/// [`BrokenPreset`]. A test of this crate ensures that this does not happen.
pub fn documents(names: &PresetNames, namespace: Namespace<&str>) -> Result<Vec<Value>, BrokenPreset> {
    FILES
        .iter()
        .map(|&(suffix, text)| {
            let broken = |message: String| BrokenPreset { name: suffix, message };
            let mut document: Value = serde_saphyr::from_str(text).map_err(|e| broken(e.to_string()))?;
            let metadata = document.get_mut("metadata").and_then(Value::as_object_mut);
            let metadata = metadata.ok_or_else(|| broken("no metadata".to_owned()))?;
            metadata.insert("name".to_owned(), names.full(suffix).into());
            metadata.insert("namespace".to_owned(), namespace.as_str().into());
            Ok(document)
        })
        .collect()
}

/// Returns the ClusterServingRuntimes of this build.
///
/// # Errors
///
/// [`BrokenPreset`]. A test of this crate ensures that this does not happen.
pub fn runtimes() -> Result<Vec<ClusterServingRuntime>, BrokenPreset> {
    let parse = |&(name, text): &(&'static str, &str)| {
        let broken = |message: String| BrokenPreset { name, message };
        // By way of a `Value`: else the YAML reader would be compiled for every type of Kubernetes, half of this crate's code.
        let document: Value = serde_saphyr::from_str(text).map_err(|e| broken(e.to_string()))?;
        ClusterServingRuntime::deserialize(&document).map_err(|e| broken(e.to_string()))
    };
    RUNTIMES.iter().map(parse).collect()
}
