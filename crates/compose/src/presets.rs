//! The well-known configs, which are embedded in the binary.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use longboat_api::{
    foreign::servingruntime::ClusterServingRuntime,
    v1alpha2::{LLMInferenceServiceConfig, LLMInferenceServiceSpec},
};
use longboat_key::Namespace;
use serde::Deserialize;
use serde_json::Value;

use crate::{pin::PresetNames, select};

/// The file name (which is the suffix of the preset's name) and the text of each preset.
static FILES: [(&str, &str); 20] = [
    ("config-llm-template", include_str!("../../../presets/config-llm-template.yaml")),
    ("config-sglang-template", include_str!("../../../presets/config-sglang-template.yaml")),
    ("config-sglang-worker", include_str!("../../../presets/config-sglang-worker.yaml")),
    ("config-sglang-sidecar", include_str!("../../../presets/config-sglang-sidecar.yaml")),
    ("config-sglang-prefill-template", include_str!("../../../presets/config-sglang-prefill-template.yaml")),
    ("config-sglang-prefill-worker", include_str!("../../../presets/config-sglang-prefill-worker.yaml")),
    ("config-tensorrt-llm-template", include_str!("../../../presets/config-tensorrt-llm-template.yaml")),
    ("config-llama-cpp-template", include_str!("../../../presets/config-llama-cpp-template.yaml")),
    ("config-llm-decode-template", include_str!("../../../presets/config-llm-decode-template.yaml")),
    (
        "config-llm-worker-data-parallel",
        include_str!("../../../presets/config-llm-worker-data-parallel.yaml"),
    ),
    (
        "config-llm-decode-worker-data-parallel",
        include_str!("../../../presets/config-llm-decode-worker-data-parallel.yaml"),
    ),
    ("config-llm-prefill-template", include_str!("../../../presets/config-llm-prefill-template.yaml")),
    (
        "config-llm-prefill-worker-data-parallel",
        include_str!("../../../presets/config-llm-prefill-worker-data-parallel.yaml"),
    ),
    ("config-llm-scheduler", include_str!("../../../presets/config-llm-scheduler.yaml")),
    (
        "config-llm-scheduler-eppconfig-default",
        include_str!("../../../presets/config-llm-scheduler-eppconfig-default.yaml"),
    ),
    (
        "config-llm-scheduler-eppconfig-default-pd",
        include_str!("../../../presets/config-llm-scheduler-eppconfig-default-pd.yaml"),
    ),
    ("config-llm-router-route", include_str!("../../../presets/config-llm-router-route.yaml")),
    (
        "config-llm-scheduler-latency-predictor",
        include_str!("../../../presets/config-llm-scheduler-latency-predictor.yaml"),
    ),
    ("config-llm-tokenizer", include_str!("../../../presets/config-llm-tokenizer.yaml")),
    ("config-llm-tracing", include_str!("../../../presets/config-llm-tracing.yaml")),
];

/// The runtimes that this build ships.
static RUNTIMES: [(&str, &str); 3] = [
    ("kserve-llm-sglang", include_str!("../../../runtimes/kserve-llm-sglang.yaml")),
    ("longboat-tensorrt-llm", include_str!("../../../runtimes/longboat-tensorrt-llm.yaml")),
    ("longboat-llama-cpp", include_str!("../../../runtimes/longboat-llama-cpp.yaml")),
];

/// A preset that does not parse, which is a mistake in this build.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot parse preset {name}: {message}")]
pub struct BrokenPreset {
    /// The preset.
    pub name: &'static str,
    /// The parser's message.
    pub message: String,
}

/// Describes the condition under which a service uses the preset with this suffix.
pub fn why(suffix: &str) -> &'static str {
    select::reason(suffix)
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
    FILES
        .iter()
        .map(|&(suffix, text)| {
            let broken = |message: String| BrokenPreset { name: suffix, message };
            let document: Value = serde_saphyr::from_str(text).map_err(|e| broken(e.to_string()))?;
            let spec = document.get("spec").ok_or_else(|| broken("no spec".to_owned()))?;
            let metadata = document.get("metadata").ok_or_else(|| broken("no metadata".to_owned()))?;
            let metadata = ObjectMeta::deserialize(metadata).map_err(|e| broken(e.to_string()))?;
            Ok(LLMInferenceServiceConfig {
                metadata: ObjectMeta {
                    name: Some(names.full(suffix)),
                    namespace: Some(namespace.to_string()),
                    ..metadata
                },
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
