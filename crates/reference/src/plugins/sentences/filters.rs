//! Filters.

use super::{Description, LOAD, PREDICTOR, PRODUCER, SESSION, TOPOLOGY, described, grouped};

pub(super) const PLUGINS: &[Description] = &[
    grouped(
        "by-label",
        "-filter",
        "Deprecated: use `label-selector-filter`. Keeps pods whose label has one of the given values.",
        &[
            ("label", "Key of the label."),
            ("validValues", "Values of the label that are kept."),
            ("allowsNoLabel", "Whether to keep pods without the label too. Default `false`."),
        ],
    ),
    grouped(
        "by-label-selector",
        "-filter",
        "Another name of `label-selector-filter`.",
        &[
            ("matchLabels", "Labels that a pod must have."),
            (
                "matchExpressions",
                "Further conditions: `key`, `operator` (`In`, `NotIn`, `Exists`, `DoesNotExist`) and `values`.",
            ),
        ],
    ),
    described(
        "label-selector-filter",
        "Keeps pods that a Kubernetes label selector matches.",
        &[
            ("matchLabels", "Labels that a pod must have."),
            (
                "matchExpressions",
                "Further conditions: `key`, `operator` (`In`, `NotIn`, `Exists`, `DoesNotExist`) and `values`.",
            ),
        ],
    ),
    described("prefill-filter", "Keeps pods whose role label says that they prefill.", &[]),
    described("decode-filter", "Keeps pods whose role label says that they decode.", &[]),
    described("encode-filter", "Keeps pods whose role label says that they encode images and audio.", &[]),
    described(
        "header-based-testing-filter",
        "For tests: keeps exactly the pods that a request header lists.",
        &[],
    ),
    described(
        "slo-headroom-tier-filter",
        "Keeps the pods that are predicted to meet the latency targets in the headers of the request \
         (`x-llm-d-slo-ttft-ms`, `x-llm-d-slo-tpot-ms`). If no pod meets them, it keeps all.",
        &[
            ("epsilonExploreNeg", "Probability, 0 to 1, of keeping the slow pods instead. Default 0.01."),
            PREDICTOR,
        ],
    ),
    described(
        "latency-scorer",
        "Prefers pods by the predicted headroom: the latency target of the request minus the predicted latency. Without \
         predictions, it scores by KV cache, queue and prefix.",
        &[
            ("ttftWeight", "Weight of the time to the first token. Default 0.8."),
            ("tpotWeight", "Weight of the time for each further token. Default 0.2."),
            (
                "headroomSelectionStrategy",
                "`least` (default) prefers pods that just meet the targets, `most` prefers the fastest pods.",
            ),
            ("compositeKVWeight", "Without predictions: weight of the KV cache. Default 1."),
            ("compositeQueueWeight", "Without predictions: weight of the queue. Default 1."),
            ("compositePrefixWeight", "Without predictions: weight of the prefix. Default 1."),
            PREDICTOR,
            PRODUCER,
        ],
    ),
    described(
        "prefix-cache-affinity-filter",
        "Keeps the pods that hold most of the prompt, unless they are much busier than others.",
        &[
            ("affinityThreshold", "Share of the prompt, 0 to 1, that a pod must hold. Default 0.8."),
            ("explorationProbability", "Probability, 0 to 1, of keeping all pods. Default 0."),
            (
                "maxTTFTPenaltyMs",
                "Maximum difference in milliseconds between the time to first token of the best pod with the prefix and of the best other pod. Above it, all pods are kept. Default 18000.",
            ),
            (
                "ttftSource",
                "Estimate of the time to first token: `prefillThroughput` (default) computes it from the prompt tokens in flight, `latencyPredictor` uses predictions.",
            ),
            PREDICTOR,
            (
                "peakPrefillThroughput",
                "Number of prompt tokens that a pod computes per second. Default 15928.",
            ),
            PRODUCER,
            LOAD,
        ],
    ),
    described(
        "utilization-filter",
        "Keeps pods whose metrics are below all limits.",
        &[
            (
                "conditions",
                "Limits: `metric` (`active-requests`, `running-requests`, `waiting-queue`, `kv-cache-utilization`) and `maxValue`.",
            ),
            ("fallbackOnEmpty", "Whether to keep all pods if none is below the limits. Default `false`."),
        ],
    ),
    described(
        "session-affinity-filter",
        "Keeps the pod that served the session before, as long as it is a candidate.",
        SESSION,
    ),
    described(
        "endpoint-attribute-filter",
        "Keeps pods whose attribute satisfies a comparison with a number.",
        &[
            ("attribute", "Name of the attribute."),
            ("producer", "Name of the plugin that provides the attribute."),
            (
                "onMissing",
                "Treatment of pods without the attribute: `Pass` (default) keeps them, `Fail` removes them.",
            ),
            (
                "fallbackOnEmpty",
                "Whether to keep all pods if none satisfies the comparison. Default `false`.",
            ),
            (
                "algorithm",
                "The comparison: `type: threshold`, and `threshold` with `operator` (such as `LessThan`) and `value`. Required.",
            ),
        ],
    ),
    described(
        "topology-affinity-filter",
        "Keeps pods near the pod that was picked before, for instance prefill pods near the decode pod.",
        &[
            (
                "minAffinity",
                "Smallest unit that the pods must share: `host` (default), `rack`, `zone` or `region`.",
            ),
            TOPOLOGY,
        ],
    ),
];
