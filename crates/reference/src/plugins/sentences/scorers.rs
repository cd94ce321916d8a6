//! Scorers.

use super::{
    AUTO_TUNE, BLOCK_SIZE, BLOCK_TOKENS, CAPACITY, Description, IGNORED, LOAD, MAX_BLOCKS, MAX_TOKENS,
    PRECISE, PRODUCER, SESSION, TOPOLOGY, described, grouped,
};

pub(super) const PLUGINS: &[Description] = &[
    grouped(
        "latency-observation-scorer-hub",
        "-scorer",
        "Prefers pods where the first token is predicted to come soon: from the times that `latency-observer-producer-hub` has \
         measured, at the number of requests that are in flight there now.",
        &[
            (
                "explorationRate",
                "Probability, 0 to 1, of the best score for a pod of which little is known. Default 0.1; with 0, such pods count \
                 as the best ones.",
            ),
            (
                "minInflightGap",
                "How many requests in flight must lie between the low and the typical load, for the low one to count. Default 2.",
            ),
            (
                "roundTTFTStep",
                "Predictions are rounded to multiples of this number of seconds. Default 0: not at all.",
            ),
            (
                "ttftPercentilesProducerName",
                "Name of the `latency-observer-producer-hub` to read. Default: the first one, or a built-in one if none is declared.",
            ),
            LOAD,
        ],
    ),
    described(
        "endpoint-attribute-scorer",
        "Scores the value of an attribute by its position in a range.",
        &[
            ("attributeKey", "Name of the attribute."),
            ("producer", "Name of the plugin that provides the attribute."),
            (
                "algorithm",
                "`type` is `linear_lower_is_better` or `linear_higher_is_better`. `normalization` is `fixedRange` with `min` and `max`, or `adaptiveRange`, the range of the candidates' values.",
            ),
        ],
    ),
    described(
        "topology-affinity-scorer",
        "Prefers pods near the pod that was picked before, for instance prefill pods near the decode pod.",
        &[TOPOLOGY],
    ),
    described(
        "precise-prefix-cache-scorer",
        "Combines a `precise-prefix-cache-producer` and the `prefix-cache-scorer` that reads it.",
        PRECISE,
    ),
    described("queue-scorer", "Prefers short queues, relative to the other candidates.", &[]),
    described(
        "running-requests-size-scorer",
        "Prefers pods with few running requests, relative to the other candidates.",
        &[],
    ),
    described("kv-cache-utilization-scorer", "Scores the share of the KV cache that is free.", &[]),
    described(
        "lora-affinity-scorer",
        "Prefers pods that have the adapter loaded, then those with room for it.",
        &[],
    ),
    described(
        "load-aware-scorer",
        "Scores 0.5 for an empty queue, down to 0 for a queue at the threshold.",
        &[("threshold", "Length of the queue that scores 0. Default 128.")],
    ),
    described(
        "active-request-scorer",
        "Prefers pods with few running requests of this picker.",
        &[
            ("idleThreshold", "Number of requests up to which a pod scores 1. Default 0."),
            ("maxBusyScore", "Maximum score, 0 to 1, of a pod above the threshold. Default 1."),
            LOAD,
            ("requestTimeout", IGNORED),
        ],
    ),
    described(
        "token-load-scorer",
        "Prefers pods with few prompt tokens in flight, including the tokens of this request.",
        &[("queueThresholdTokens", "Number of tokens that scores 0. Default 4194304."), LOAD],
    ),
    described(
        "prefix-cache-scorer",
        "Scores the share of the prompt that is probably in the pod's prefix cache.",
        &[
            PRODUCER,
            (
                "matchLengthWeight",
                "Weight, 0 to 1, of the length of the match against its share of the prompt. Default 0.",
            ),
            ("matchLengthScaleTokens", "Length of a match, in tokens, that counts fully. Default 8192."),
            AUTO_TUNE,
            BLOCK_SIZE,
            BLOCK_TOKENS,
            MAX_TOKENS,
            MAX_BLOCKS,
            CAPACITY,
        ],
    ),
    described(
        "no-hit-lru-scorer",
        "Spreads requests without a cached prefix: prefers the pods that got such a request longest ago.",
        &[
            ("lruSize", "Number of pods that are remembered. Default 1024."),
            PRODUCER,
            ("prefixPluginType", IGNORED),
            ("prefixPluginName", IGNORED),
        ],
    ),
    described(
        "no-hit-least-requests-scorer",
        "Of Longboat only. Spreads requests without a cached prefix: prefers the pods that were sent the fewest requests lately. A \
         request that begins a conversation counts as ten, because its next turns will follow it.",
        &[("halfLifeSeconds", "Time in which a request's share of the count halves. Default 60."), PRODUCER],
    ),
    described(
        "mm-embeddings-cache-scorer",
        "Prefers pods that have probably encoded most of the request's images, audio and videos before.",
        &[(
            "producerName",
            "Name of the `mm-embeddings-cache-producer` to read. Default: the only declared one, or a built-in one if none is declared.",
        )],
    ),
    grouped(
        "context-length-aware",
        "-scorer",
        "Prefers pods whose label has a narrow range of prompt lengths that contains the length of the prompt.",
        &[
            ("label", "Key of the label with the range. Default `llm-d.ai/context-length-range`."),
            (
                "enableFiltering",
                "Whether to remove pods whose range does not contain the length. Default `false`.",
            ),
        ],
    ),
    described("session-affinity-scorer", "Prefers the pod that served the session before.", SESSION),
    described(
        "header-label-affinity-scorer",
        "Prefers pods whose label equals a header of the request.",
        &[("headerName", "Name of the header."), ("labelKey", "Key of the label.")],
    ),
];
