//! A scenario as it is recorded: endpoints, requests, and what the reference did with them.

use std::{collections::BTreeMap, net::SocketAddr};

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
pub(super) struct Scenario {
    #[serde(default)]
    pub(super) config: Value,
    #[serde(default)]
    pub(super) endpoints: Vec<EndpointSpec>,
    #[serde(default)]
    pub(super) requests: Vec<Step>,
    pub(super) startup_error: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct EndpointSpec {
    pub(super) name: String,
    pub(super) address: SocketAddr,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    pub(super) metrics: MetricSpec,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct MetricSpec {
    pub(super) waiting: f64,
    pub(super) running: f64,
    pub(super) kv_cache_usage: f64,
    pub(super) block_size: u32,
    pub(super) num_gpu_blocks: u32,
    pub(super) lora: Option<LoraSpec>,
}

#[derive(Debug, Clone, Deserialize)]
pub(super) struct LoraSpec {
    pub(super) running: String,
    pub(super) waiting: String,
    pub(super) max: u32,
}

#[derive(Debug, Deserialize)]
pub(super) struct Step {
    pub(super) id: String,
    pub(super) request: RequestSpec,
    pub(super) observed: Observation,
    #[serde(default)]
    pub(super) hold_open: bool,
    #[serde(default)]
    pub(super) complete_before: Vec<String>,
    #[serde(default)]
    pub(super) set_metrics_before: Vec<MetricChange>,
    pub(super) repeat: Option<usize>,
}

#[derive(Debug, Deserialize)]
pub(super) struct MetricChange {
    pub(super) endpoint: usize,
    pub(super) waiting: Option<f64>,
    pub(super) kv: Option<f64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct RequestSpec {
    pub(super) method: String,
    pub(super) path: String,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Option<String>,
    #[serde(default)]
    pub(super) metadata: BTreeMap<String, serde_json::Map<String, Value>>,
    pub(super) subset_hint_endpoints: Option<Vec<usize>>,
    pub(super) session_token_from: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Observation {
    #[serde(default)]
    pub(super) picks: BTreeMap<String, usize>,
    /// The scores of each scorer (`type/name`) by endpoint, before clamping and weighting.
    #[serde(default)]
    pub(super) scores: BTreeMap<String, BTreeMap<String, RawScores>>,
    #[serde(default)]
    pub(super) emitted_scores: BTreeMap<String, f64>,
    #[serde(default)]
    pub(super) set_headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) response_set_headers: BTreeMap<String, String>,
    pub(super) immediate: Option<Immediate>,
    pub(super) response_body: Option<String>,
    pub(super) body_changed: Option<Value>,
}

/// The scores that a scorer gave an endpoint.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(super) enum RawScores {
    /// Of the one profile that has the scorer and the endpoint.
    One(f64),
    /// Of several profiles, in the order in which they ran.
    Several(Vec<f64>),
}

#[derive(Debug, Deserialize)]
pub(super) struct Immediate {
    pub(super) status: u16,
    pub(super) body: String,
}
