//! The detectors of saturation, read from the configuration.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{section::part, stage::Stage};
use crate::{
    config::EndpointPickerConfig,
    error::ConfigError,
    numbers::millis,
    parameters::{Parameters, parameters},
};

/// The type of the detector that takes the fullest of several.
const MAX: &str = "max-saturation-detector";
/// The types that such a detector may name.
const LEAVES: [&str; 2] = ["utilization-detector", "concurrency-detector"];

/// The source of the saturation, where 1 is full.
#[derive(Debug, Clone, PartialEq)]
pub enum Detector {
    /// The scraped queue lengths and uses of KV caches.
    Utilization {
        /// The queue length at which an endpoint is full.
        queue_depth: f64,
        /// The used share of the KV cache at which an endpoint is full.
        kv_usage: f64,
        /// The age in milliseconds at which metrics are stale. An endpoint with stale metrics counts as full.
        stale_after_ms: u64,
    },
    /// Requests in flight.
    Concurrency {
        /// The most requests per endpoint.
        requests: u64,
        /// The most uncached prompt tokens in flight per endpoint.
        tokens: u64,
        /// Which of the two limits is used.
        mode: ConcurrencyMode,
    },
    /// The fullest of several.
    Max(Vec<StagedDetector>),
}

// === impl Detector ===

impl Detector {
    /// Returns the detectors that measure something.
    pub fn leaves(&self) -> impl Iterator<Item = &Self> {
        let several = match self {
            Self::Max(several) => several.as_slice(),
            _ => &[],
        };
        let itself = several.is_empty().then_some(self);
        itself.into_iter().chain(several.iter().map(|one| &one.detector))
    }
}

/// A detector that is one of several.
#[derive(Debug, Clone, PartialEq)]
pub struct StagedDetector {
    /// The plugin's name.
    pub name: String,
    /// It is none of several itself.
    pub detector: Detector,
    /// The stages whose endpoints it judges.
    pub stages: Vec<Stage>,
}

/// The limits that the concurrency detector uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConcurrencyMode {
    /// Requests.
    #[default]
    Requests,
    /// Prompt tokens.
    Tokens,
    /// Both; the fuller one of each endpoint counts.
    Hybrid,
}

parameters! {
    struct Utilization {
        queue_depth_threshold: f64 = 5.0,
        kv_cache_util_threshold: f64 = 0.8,
        metrics_staleness_threshold: String = "200ms".to_owned(),
        headroom: f64,
    }
}

parameters! {
    struct ConcurrencyDetector {
        max_concurrency: u64 = 100,
        max_token_concurrency: u64 = 1_000_000,
        concurrency_mode: ConcurrencyMode = ConcurrencyMode::Requests,
        headroom: f64,
        in_flight_load_producer_name: Option<String>,
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Several {
    detectors: Vec<String>,
    stages: BTreeMap<String, Vec<Stage>>,
}

/// Reads the detector with this name, or the default one.
pub(super) fn detector(config: &EndpointPickerConfig, name: Option<&str>) -> Result<Detector, ConfigError> {
    let (plugin_type, parameters) = part(config, name, "utilization-detector");
    if plugin_type == MAX {
        several(config, &parameters)
    } else {
        Ok(read_detector(plugin_type, &parameters)?.detector)
    }
}

/// Checks a detector of several, even if nothing refers to it.
pub(crate) fn check_several(
    config: &EndpointPickerConfig,
    plugin_type: &str,
    parameters: &Parameters<'_>,
) -> Result<(), ConfigError> {
    if plugin_type == MAX {
        several(config, parameters)?;
    }
    Ok(())
}

fn several(config: &EndpointPickerConfig, parameters: &Parameters<'_>) -> Result<Detector, ConfigError> {
    let raw: Several = parameters.read()?;
    parameters.require(!raw.detectors.is_empty(), "detectors", "expected at least one detector")?;
    if let Some(name) = raw.stages.keys().find(|name| !raw.detectors.contains(name)) {
        return Err(parameters.invalid("stages", format!("\"{name}\" is not one of detectors")));
    }
    if let Some((name, _)) = raw.stages.iter().find(|(_, stages)| stages.is_empty()) {
        return Err(parameters.invalid(&format!("stages.{name}"), "expected prefill, decode or both"));
    }
    let mut found: Vec<StagedDetector> = Vec::new();
    for (index, name) in raw.detectors.iter().enumerate() {
        let at = format!("detectors[{index}]");
        parameters.require(
            !found.iter().any(|known| known.name == *name),
            &at,
            format!("\"{name}\" is listed twice"),
        )?;
        let (plugin_type, leaf) = part(config, Some(name), name);
        if name.is_empty() || !LEAVES.contains(&plugin_type) {
            let expected = "a declared utilization-detector or concurrency-detector";
            return Err(parameters.unknown_reference(&at, name, expected, config.names()));
        }
        let stages = raw.stages.get(name).cloned().unwrap_or_else(|| Stage::ALL.to_vec());
        found.push(StagedDetector {
            name: name.clone(),
            detector: read_detector(plugin_type, &leaf)?.detector,
            stages,
        });
    }
    Ok(Detector::Max(found))
}

/// A detector with its parameters as a filter.
pub(crate) struct FilterDetector {
    pub(crate) detector: Detector,
    pub(crate) headroom: f64,
    /// The producer of loads that it names.
    pub(crate) load_producer: Option<String>,
}

/// Reads a detector.
pub(crate) fn read_detector(
    plugin_type: &str,
    parameters: &Parameters<'_>,
) -> Result<FilterDetector, ConfigError> {
    if plugin_type == "concurrency-detector" {
        let raw: ConcurrencyDetector = parameters.read()?;
        let detector = Detector::Concurrency {
            requests: raw.max_concurrency,
            tokens: raw.max_token_concurrency,
            mode: raw.concurrency_mode,
        };
        parameters.above_zero("maxConcurrency", raw.max_concurrency)?;
        parameters.above_zero("maxTokenConcurrency", raw.max_token_concurrency)?;
        parameters.zero_or_more("headroom", raw.headroom)?;
        return Ok(FilterDetector {
            detector,
            headroom: raw.headroom,
            load_producer: raw.in_flight_load_producer_name,
        });
    }
    let raw: Utilization = parameters.read()?;
    for (field, value) in [
        ("queueDepthThreshold", raw.queue_depth_threshold),
        ("kvCacheUtilThreshold", raw.kv_cache_util_threshold),
    ] {
        parameters.above_zero(field, value)?;
    }
    parameters.zero_or_more("headroom", raw.headroom)?;
    let stale = longboat_quantity::duration::parse(&raw.metrics_staleness_threshold)
        .map_err(|error| parameters.invalid("metricsStalenessThreshold", error))?;
    let detector = Detector::Utilization {
        queue_depth: raw.queue_depth_threshold,
        kv_usage: raw.kv_cache_util_threshold,
        stale_after_ms: millis(stale),
    };
    Ok(FilterDetector { detector, headroom: raw.headroom, load_producer: None })
}
