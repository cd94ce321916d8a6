//! The sidecar's metrics.

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue},
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

/// The outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Outcome {
    /// Passed to the engine unchanged.
    Passed,
    /// Answered by the decoder before any prefill.
    DecodedFirst,
    /// Prefilled by another endpoint and decoded here.
    Disaggregated,
    /// An encoder failed.
    EncodeFailed,
    /// The prefiller failed, and the client received its response.
    PrefillFailed,
    /// The prefiller failed, and the engine beside the sidecar did both.
    FellBack,
    /// Refused before a request was sent to any engine.
    Refused,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    outcome: Outcome,
}

/// The counters and their registry.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Labels, Counter>,
}

// === impl Metrics ===

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        let requests = Family::default();
        registry.register("longboat_sidecar_requests", "Requests by outcome", requests.clone());
        Self { registry, requests }
    }

    pub(crate) fn count(&self, outcome: Outcome) {
        self.requests.get_or_create(&Labels { outcome }).inc();
    }

    /// Returns the page in OpenMetrics' text format.
    pub(crate) fn page(&self) -> String {
        let mut page = String::new();
        // writing to a string does not fail
        let _ = prometheus_client::encoding::text::encode(&mut page, &self.registry);
        page
    }
}
