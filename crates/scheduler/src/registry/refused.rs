//! Plugin types of the reference that this picker refuses, each with the feature that it would need.

/// The type, and the feature that it would need.
pub const REFUSED: &[(&str, &str)] = &[
    ("cross-replica-publisher", "a transport between replicas of the picker, and llm-d has none"),
    ("dcgm-data-source", "NVIDIA's DCGM exporter beside each model server"),
    ("dcgm-extractor", "NVIDIA's DCGM exporter beside each model server"),
    ("disaggregatedset-rollout-pod-extractor", "the DisaggregatedSet resource"),
    ("disaggregatedset-rollout-screener", "the DisaggregatedSet resource"),
    ("models-data-extractor", "a filter or scorer that reads the list of models, which llm-d does not have"),
    ("models-data-source", "a filter or scorer that reads the list of models, which llm-d does not have"),
    ("multicluster-approx-prefix-cache-producer", "pools of other clusters"),
    ("multicluster-file-discovery", "pools of other clusters"),
    ("multicluster-kv-cache-utilization-scorer", "pools of other clusters"),
    ("multicluster-metrics-data-source", "pools of other clusters"),
    ("multicluster-metrics-extractor", "pools of other clusters"),
    ("multicluster-prefix-cache-scorer", "pools of other clusters"),
    ("multicluster-queue-scorer", "pools of other clusters"),
    ("multicluster-session-affinity-filter", "pools of other clusters"),
    ("redis-state-store", "a Redis server; llm-d has not merged it (llm-d-router#2837)"),
    (
        "session-manager",
        "a plugin that reads the identities of sessions; of llm-d's plugins, only session-state-producer does",
    ),
    (
        "session-state-producer",
        "a plugin that reads the state of sessions, and none of llm-d's merged plugins does",
    ),
];

/// Returns what a refused type would need. Returns `None` for any other type.
pub(super) fn needs(plugin_type: &str) -> Option<&'static str> {
    REFUSED.iter().find(|(name, _)| *name == plugin_type).map(|(_, needs)| *needs)
}
