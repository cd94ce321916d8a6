//! Plugin types of the reference that this picker refuses, each with what it would need.
//!
//! `COMPATIBILITY.md` has the same table; a test compares the two.

/// The type, and what it would need to work here.
pub const REFUSED: &[(&str, &str)] = &[
    ("agent-identity", "a fairness id that comes from headers of agents"),
    ("burst-prefix-cache-producer", "requests that wait for others, to be placed together"),
    ("cross-replica-publisher", "state that replicas of the picker share"),
    ("dcgm-data-source", "NVIDIA's DCGM exporter beside each model server"),
    ("dcgm-extractor", "NVIDIA's DCGM exporter beside each model server"),
    ("destination-endpoint-served-verifier", "the endpoint that served, in the metadata of the response"),
    ("disaggregatedset-rollout-pod-extractor", "the DisaggregatedSet resource"),
    ("disaggregatedset-rollout-screener", "the DisaggregatedSet resource"),
    ("latency-scorer", "a latency predictor"),
    ("latency-slo-admitter", "a latency predictor"),
    ("local-syncer", "state that replicas of the picker share"),
    ("mm-embeddings-cache-producer", "hashes of the images in a request"),
    ("mm-embeddings-cache-scorer", "hashes of the images in a request"),
    ("models-data-extractor", "attributes of endpoints from their list of models"),
    ("models-data-source", "attributes of endpoints from their list of models"),
    ("multicluster-approx-prefix-cache-producer", "pools of other clusters"),
    ("multicluster-file-discovery", "pools of other clusters"),
    ("multicluster-kv-cache-utilization-scorer", "pools of other clusters"),
    ("multicluster-metrics-data-source", "pools of other clusters"),
    ("multicluster-metrics-extractor", "pools of other clusters"),
    ("multicluster-prefix-cache-scorer", "pools of other clusters"),
    ("multicluster-queue-scorer", "pools of other clusters"),
    ("multicluster-session-affinity-filter", "pools of other clusters"),
    ("p2p-source-producer", "model servers that pull caches from each other"),
    ("predicted-latency-producer", "a latency predictor"),
    ("priority-then-time-eviction-order-policy", "eviction of requests in flight"),
    ("request-attribute-reporter", "expressions over the usage in a response"),
    ("session-id-producer", "plugins that read the session of a request"),
    ("sheddable-eviction-filter", "eviction of requests in flight"),
    ("slo-headroom-tier-filter", "a latency predictor"),
    ("vertexai-parser", "requests over gRPC"),
    ("vllmgrpc-parser", "requests over gRPC"),
];

/// What a refused type would need.
pub(super) fn needs(plugin_type: &str) -> Option<&'static str> {
    REFUSED.iter().find(|(name, _)| *name == plugin_type).map(|(_, needs)| *needs)
}
