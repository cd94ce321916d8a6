//! What the sidecar counts.

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue},
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Outcome {
    /// Passed to the engine as it came.
    Passed,
    /// Answered by the decoder that was asked first.
    DecodedFirst,
    /// Prefilled elsewhere, decoded here.
    Disaggregated,
    /// An encoder failed.
    EncodeFailed,
    /// The prefiller failed, and its answer went to the client.
    PrefillFailed,
    /// The prefiller failed, and the engine did both.
    FellBack,
    /// Refused before any engine saw it.
    Refused,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    outcome: Outcome,
}

/// The counters, and how to say them.
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
        registry.register("longboat_sidecar_requests", "Requests by what became of them", requests.clone());
        Self { registry, requests }
    }

    pub(crate) fn count(&self, outcome: Outcome) {
        self.requests.get_or_create(&Labels { outcome }).inc();
    }

    /// The page in OpenMetrics' text format.
    pub(crate) fn page(&self) -> String {
        let mut page = String::new();
        // writing to a string does not fail
        let _ = prometheus_client::encoding::text::encode(&mut page, &self.registry);
        page
    }
}
