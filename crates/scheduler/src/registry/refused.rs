//! Plugin types of the reference that this picker refuses, each with the feature that it would need.
//!
//! `COMPATIBILITY.md` has the same table; a test compares the two.

/// The type, and the feature that it would need.
pub const REFUSED: &[(&str, &str)] = &[
    ("cross-replica-publisher", "state that replicas of the picker share"),
    ("dcgm-data-source", "NVIDIA's DCGM exporter beside each model server"),
    ("dcgm-extractor", "NVIDIA's DCGM exporter beside each model server"),
    ("disaggregatedset-rollout-pod-extractor", "the DisaggregatedSet resource"),
    ("disaggregatedset-rollout-screener", "the DisaggregatedSet resource"),
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
    ("request-attribute-reporter", "expressions over the usage in a response"),
];

/// Returns what a refused type would need. Returns `None` for any other type.
pub(super) fn needs(plugin_type: &str) -> Option<&'static str> {
    REFUSED.iter().find(|(name, _)| *name == plugin_type).map(|(_, needs)| *needs)
}
