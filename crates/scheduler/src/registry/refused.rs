//! Plugin types of the reference that this picker refuses, each with the feature that it would need.

/// The type, and the feature that it would need.
pub const REFUSED: &[(&str, &str)] = &[
    ("cross-replica-publisher", "a transport between replicas of the picker, which llm-d does not have"),
    ("dcgm-data-source", "NVIDIA's DCGM exporter beside each model server"),
    ("dcgm-extractor", "NVIDIA's DCGM exporter beside each model server"),
    ("disaggregatedset-rollout-pod-extractor", "the DisaggregatedSet resource"),
    ("disaggregatedset-rollout-screener", "the DisaggregatedSet resource"),
    ("latency-observation-scorer-hub", "pools of other clusters"),
    ("latency-observer-producer-hub", "pools of other clusters"),
    (
        "local-syncer",
        "a transport between replicas of the picker; llm-d shares state only within one process",
    ),
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
    ("session-state-producer", "a plugin that reads the state of sessions, which this picker does not have"),
];

/// Returns what a refused type would need. Returns `None` for any other type.
pub(super) fn needs(plugin_type: &str) -> Option<&'static str> {
    REFUSED.iter().find(|(name, _)| *name == plugin_type).map(|(_, needs)| *needs)
}
