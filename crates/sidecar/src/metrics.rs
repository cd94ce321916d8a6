//! The sidecar's metrics.

use longboat_metrics::{labels, metrics};
use prometheus_client::{
    encoding::{EncodeLabelValue, text::encode},
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

labels! {
    struct Labels { outcome: Outcome }
}

metrics! {
    /// What the sidecar counts.
    #[derive(Debug)]
    pub(crate) struct Metrics {
        requests: Family<Labels, Counter> => "longboat_sidecar_requests", "Requests by outcome";
    }
}

// === impl Metrics ===

impl Metrics {
    pub(crate) fn count(&self, outcome: Outcome) {
        self.requests.get_or_create(&Labels { outcome }).inc();
    }

    /// Returns the page in OpenMetrics' text format.
    pub(crate) fn page(&self) -> String {
        let mut registry = Registry::default();
        self.add_to(&mut registry);
        let mut page = String::new();
        // writing to a string does not fail
        let _ = encode(&mut page, &registry);
        page
    }
}
