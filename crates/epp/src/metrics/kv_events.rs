//! The KV cache events that come from endpoints.

use std::collections::BTreeSet;

use longboat_metrics::{labels, metrics};
use prometheus_client::metrics::{counter::Counter, gauge::Gauge};

use super::per_endpoint::PerEndpoint;

labels! {
    struct PodLabel { pod_identifier: String }
    struct ErrorLabels { pod_identifier: String, operation: &'static str }
}

metrics! {
    /// These series.
    #[derive(Debug)]
    pub(crate) struct KvEventMetrics {
        subscribers: Gauge
            => "llm_d_epp_kv_cache_events_active_subscribers",
            "Endpoints whose events are followed, connected or not";
        reconnections: PerEndpoint<PodLabel, Counter> = PerEndpoint::new()
            => "llm_d_epp_kv_cache_events_subscriber_reconnections",
            "Connections to endpoints that were made again";
        messages: PerEndpoint<PodLabel, Counter> = PerEndpoint::new()
            => "llm_d_epp_kv_cache_events_messages_received", "Messages with events";
        errors: PerEndpoint<ErrorLabels, Counter> = PerEndpoint::new()
            => "llm_d_epp_kv_cache_events_zmq_errors", "Connections and replays that failed";
    }
}

/// Counts a subscription to an endpoint until this is dropped.
#[derive(Debug)]
pub(crate) struct Subscription(Gauge);

impl Drop for Subscription {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl KvEventMetrics {
    pub(super) fn keep(&self, endpoints: &BTreeSet<String>) {
        self.reconnections.keep(endpoints);
        self.messages.keep(endpoints);
        self.errors.keep(endpoints);
    }

    /// Counts an endpoint whose events are followed.
    pub(crate) fn subscribed(&self) -> Subscription {
        self.subscribers.inc();
        Subscription(self.subscribers.clone())
    }

    /// Counts a connection to an endpoint that was made before, and has ended.
    pub(crate) fn reconnected(&self, endpoint: &str) {
        let labels = PodLabel { pod_identifier: endpoint.to_owned() };
        self.reconnections.count(endpoint, &labels);
    }

    /// Counts a message of an endpoint.
    pub(crate) fn received(&self, endpoint: &str) {
        let labels = PodLabel { pod_identifier: endpoint.to_owned() };
        self.messages.count(endpoint, &labels);
    }

    /// Counts an operation that failed: `connect`, `recv`, `replay-incomplete` or `replay-no-progress`.
    pub(crate) fn failed(&self, endpoint: &str, operation: &'static str) {
        let labels = ErrorLabels { pod_identifier: endpoint.to_owned(), operation };
        self.errors.count(endpoint, &labels);
    }
}
