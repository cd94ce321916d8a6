//! What plugins and their parameters do, in sentences.

/// The sentences about one plugin type.
pub(super) struct Told {
    /// The type.
    pub(super) name: &'static str,
    /// Its group, if the name does not end with a group's suffix.
    pub(super) group: &'static str,
    /// What it does.
    pub(super) does: &'static str,
    /// Its parameters and their effects.
    pub(super) parameters: &'static [(&'static str, &'static str)],
}

const fn told(
    name: &'static str,
    does: &'static str,
    parameters: &'static [(&'static str, &'static str)],
) -> Told {
    Told { name, group: "", does, parameters }
}

const fn grouped(
    name: &'static str,
    group: &'static str,
    does: &'static str,
    parameters: &'static [(&'static str, &'static str)],
) -> Told {
    Told { name, group, does, parameters }
}

/// The suffix of the names in a group, the group's title, and its purpose.
pub(super) const GROUPS: [(&str, &str, &str); 7] = [
    ("-filter", "Filters", "Filters remove pods from the candidates."),
    (
        "-scorer",
        "Scorers",
        "Scorers give each candidate a score from 0 to 1. A profile multiplies the score by the scorer's `weight`.",
    ),
    ("-picker", "Pickers", "Pickers choose among the candidates by the sum of their scores."),
    ("-handler", "Profile handlers", "Profile handlers decide which scheduling profiles run for a request."),
    ("-decider", "Deciders", "Deciders decide whether a request goes through a further stage."),
    ("-producer", "Producers", "Producers compute data for other plugins."),
    ("other", "Others", "Parsers, sources of metrics, and the policies of flow control."),
];

const PRODUCER: (&str, &str) = (
    "prefixMatchInfoProducerName",
    "Name of the `approx-prefix-cache-producer` to read. Default: the only declared one, or a built-in one if none is declared.",
);
const PREDICTOR: (&str, &str) = (
    "latencyPredictionInfoProducerName",
    "Name of the `predicted-latency-producer` to read. Default: the only declared one, or a built-in one if none is declared.",
);
const LOAD: (&str, &str) =
    ("inFlightLoadProducerName", "Name of the `inflight-load-producer` to read. Default: the built-in one.");
const AUTO_TUNE: (&str, &str) =
    ("autoTune", "Take block size and capacity from the metrics of the engines. Default `true`.");
const BLOCK_TOKENS: (&str, &str) = ("blockSizeTokens", "Number of tokens in a block. Default 16.");
const BLOCK_SIZE: (&str, &str) = ("blockSize", "Former name of `blockSizeTokens`.");
const MAX_TOKENS: (&str, &str) = (
    "maxPrefixTokensToMatch",
    "Maximum number of tokens, from the beginning of a prompt, that are matched. Default 131072.",
);
const MAX_BLOCKS: (&str, &str) = (
    "maxPrefixBlocksToMatch",
    "Maximum number of blocks, from the beginning of a prompt, that are matched. Default 2048.",
);
const CAPACITY: (&str, &str) = (
    "lruCapacityPerServer",
    "Number of blocks that are remembered for each pod. Default 31250; must not be 0.",
);
const SHARED: (&str, &str) = (
    "sharedPrefixAfter",
    "A prefix that this number of different prompts share no longer ties requests to a pod. Default 0: a shared prefix always does.",
);
const TOPOLOGY: (&str, &str) =
    ("topologyProducerName", "Name of the `topology-extractor` to read. Default: the only declared one.");
const IGNORED: &str = "Accepted for compatibility, without effect.";

pub(super) const PLUGINS: &[Told] = &[
    // filters
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
    told(
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
    told("prefill-filter", "Keeps pods whose role label says that they prefill.", &[]),
    told("decode-filter", "Keeps pods whose role label says that they decode.", &[]),
    told("encode-filter", "Keeps pods whose role label says that they encode images and audio.", &[]),
    told(
        "header-based-testing-filter",
        "For tests: keeps exactly the pods that a request header lists.",
        &[],
    ),
    told(
        "slo-headroom-tier-filter",
        "Keeps the pods that are predicted to meet the latency targets in the headers of the request \
         (`x-llm-d-slo-ttft-ms`, `x-llm-d-slo-tpot-ms`). If no pod meets them, it keeps all.",
        &[
            ("epsilonExploreNeg", "Probability, 0 to 1, of keeping the slow pods instead. Default 0.01."),
            PREDICTOR,
        ],
    ),
    told(
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
    told(
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
    told(
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
    told(
        "session-affinity-filter",
        "Keeps the pod that served the session before, as long as it is a candidate.",
        SESSION,
    ),
    told(
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
    told(
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
    // scorers
    told(
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
    told(
        "topology-affinity-scorer",
        "Prefers pods near the pod that was picked before, for instance prefill pods near the decode pod.",
        &[TOPOLOGY],
    ),
    told(
        "precise-prefix-cache-scorer",
        "Combines a `precise-prefix-cache-producer` and the `prefix-cache-scorer` that reads it.",
        PRECISE,
    ),
    told("queue-scorer", "Prefers short queues, relative to the other candidates.", &[]),
    told(
        "running-requests-size-scorer",
        "Prefers pods with few running requests, relative to the other candidates.",
        &[],
    ),
    told("kv-cache-utilization-scorer", "Scores the share of the KV cache that is free.", &[]),
    told(
        "lora-affinity-scorer",
        "Prefers pods that have the adapter loaded, then those with room for it.",
        &[],
    ),
    told(
        "load-aware-scorer",
        "Scores 0.5 for an empty queue, down to 0 for a queue at the threshold.",
        &[("threshold", "Length of the queue that scores 0. Default 128.")],
    ),
    told(
        "active-request-scorer",
        "Prefers pods with few running requests of this picker.",
        &[
            ("idleThreshold", "Number of requests up to which a pod scores 1. Default 0."),
            ("maxBusyScore", "Maximum score, 0 to 1, of a pod above the threshold. Default 1."),
            LOAD,
            ("requestTimeout", IGNORED),
        ],
    ),
    told(
        "token-load-scorer",
        "Prefers pods with few prompt tokens in flight, including the tokens of this request.",
        &[("queueThresholdTokens", "Number of tokens that scores 0. Default 4194304."), LOAD],
    ),
    told(
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
    told(
        "no-hit-lru-scorer",
        "Spreads requests without a cached prefix: prefers the pods that got such a request longest ago.",
        &[
            ("lruSize", "Number of pods that are remembered. Default 1024."),
            PRODUCER,
            ("prefixPluginType", IGNORED),
            ("prefixPluginName", IGNORED),
        ],
    ),
    told(
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
    told("session-affinity-scorer", "Prefers the pod that served the session before.", SESSION),
    told(
        "header-label-affinity-scorer",
        "Prefers pods whose label equals a header of the request.",
        &[("headerName", "Name of the header."), ("labelKey", "Key of the label.")],
    ),
    // pickers
    told("max-score-picker", "Picks the pod with the highest score, or a random pod among equals.", COUNT),
    told("random-picker", "Picks a random candidate, without regard to its score.", COUNT),
    told("weighted-random-picker", "Picks a random candidate, in proportion to its score.", COUNT),
    // deciders
    told("always-disagg-pd-decider", "Sends every request to a prefill pod first.", &[]),
    told(
        "prefix-based-pd-decider",
        "Sends a request to a prefill pod first if the decode pod lacks enough tokens of the prompt in its cache.",
        &[
            (
                "nonCachedTokens",
                "Minimum number of prompt tokens that the decode pod has not cached. Default 0: no request goes to a prefill pod.",
            ),
            ("promptTokens", "Minimum number of tokens of the prompt. Default 0."),
        ],
    ),
    told(
        "always-disagg-multimodal-decider",
        "Sends requests with images, audio or video to an encode pod first.",
        &[],
    ),
    // handlers
    told("single-profile-handler", "Runs the only profile.", &[]),
    told(
        "disagg-profile-handler",
        "Runs the profile `decode`, and also `prefill` or `encode` if a decider chooses so.",
        &[
            ("stageOrder", "`decode-first` (default) or `prefill-first`."),
            ("profiles", "Names of the profiles: `decode`, `prefill`, `encode`."),
            ("deciders", "Names of the deciders: `prefill`, `encode`."),
            ("decodeProfile", "Former spelling of `profiles.decode`."),
            ("prefillProfile", "Former spelling of `profiles.prefill`."),
            ("encodeProfile", "Former spelling of `profiles.encode`."),
            ("prefillDeciderPluginName", "Former spelling of `deciders.prefill`."),
            ("encodeDeciderPluginName", "Former spelling of `deciders.encode`."),
        ],
    ),
    told(
        "pd-profile-handler",
        "Deprecated: use `disagg-profile-handler`. Runs decode, and also prefill above a threshold.",
        &[
            (
                "threshold",
                "Minimum number of prompt tokens that the decode pod has not cached. 0: no request goes to a prefill pod.",
            ),
            ("prefillProfile", "Name of the profile that prefills. Default `prefill`."),
            ("decodeProfile", "Name of the profile that decodes. Default `decode`."),
            ("deciderPluginName", "Name of a decider, which replaces the threshold."),
            ("hashBlockSize", IGNORED),
            ("primaryPort", IGNORED),
            ("prefixPluginType", IGNORED),
            ("prefixPluginName", IGNORED),
        ],
    ),
    told(
        "data-parallel-profile-handler",
        "Sends the request to one port of the pod, and names the data-parallel rank in a header.",
        &[("primaryPort", "Port of the pod. Default 8000.")],
    ),
    told("header-profile-handler", "Runs the profile that a header of the request names.", &[]),
    told(
        "disagg-headers-handler",
        "Sends the address of the prefill pod to the sidecar in a header. Always active, declared or not.",
        &[],
    ),
    told("prefill-header-handler", "Former name of `disagg-headers-handler`.", &[]),
    // producers
    told(
        "approx-prefix-cache-producer",
        "Remembers which prompts were sent to which pod.",
        &[AUTO_TUNE, BLOCK_SIZE, BLOCK_TOKENS, MAX_TOKENS, MAX_BLOCKS, CAPACITY, SHARED],
    ),
    told(
        "mm-embeddings-cache-producer",
        "Remembers which images, audio and videos were sent to which pod. It identifies them by the hashes of a \
         `token-producer` that asks a tokenizer, or else by their URLs or data.",
        &[
            (
                "cacheSizeInMBPerServer",
                "Size of a model server's encoder cache in MiB, up to 1048576. An item counts as 2 MiB. Default 4096.",
            ),
            ("cacheSizeInMB", "Former name of `cacheSizeInMBPerServer`."),
        ],
    ),
    told(
        "burst-prefix-cache-producer",
        "Sends requests that arrive at the same time with the same prompt to the same pod, which then computes the prompt once. \
         Each request with a prompt waits for the end of a time window. Name this producer in `prefix-cache-scorer`.",
        &[
            (
                "windowDurationMs",
                "Length of the window in milliseconds, 1 to 10000. The first request opens the window. Default 100.",
            ),
            (
                "maxPerReplica",
                "Maximum number of requests with the same prompt for one pod. Default -1: no limit.",
            ),
            ("blockSizeTokens", "Number of tokens in a block. Default 64."),
            (
                "maxPrefixTokensToMatch",
                "Maximum number of tokens, from the beginning of a prompt, that are compared; at least one block. Default 0: 2048 blocks.",
            ),
            (
                "minColocateBlocks",
                "Requests with different prompts are also sent to the same pod if at least this number of leading blocks is equal, \
                 until the pod has its fair share. Default 0: they are not.",
            ),
            (
                "maxBatchSize",
                "Maximum number of requests in a window. Further requests do not wait, and are not grouped. Default 1000; -1 means no limit.",
            ),
            (
                "balanceBy",
                "Load that is spread evenly over the pods: `requests` (default), or `tokens`, the blocks that a pod has to compute.",
            ),
        ],
    ),
    told(
        "inflight-load-producer",
        "Counts requests and tokens in flight. They are always counted; the declaration only lets other plugins name the producer.",
        &[
            (
                "addEstimatedOutputTokens",
                "Whether to count output tokens before they are generated. Only `false` is supported.",
            ),
            ("outputRatio", IGNORED),
            ("maxEstimatedOutputTokens", IGNORED),
            PRODUCER,
            ("syncCrossReplicaState", IGNORED),
        ],
    ),
    told(
        "token-producer",
        "Determines the source of the tokens of prompts. Without an address, the text is used instead of tokens.",
        TOKENS,
    ),
    grouped("tokenizer", "-producer", "Former name of `token-producer`.", TOKENS),
    told(
        "precise-prefix-cache-producer",
        "Learns from the engines' KV cache events which pod holds which prompt.",
        PRECISE,
    ),
    told(
        "predicted-latency-producer",
        "Asks a predictor for the latency of a request on each pod, and trains it with the latency of responses. The environment \
         variables `PREDICTION_SERVER_URL` and `TRAINING_SERVER_URL` of the picker have the addresses of the predictor.",
        &[
            (
                "streamingMode",
                "Whether to train with the time to first token and the time per further token separately. Default `false`: the time \
                 of the whole response counts as the time to first token.",
            ),
            (
                "predictInProduce",
                "Whether to ask for predictions. Default `true`. With `false`, the predictor is only trained.",
            ),
            ("sloBufferFactor", "Factor, above 0, for the target of the time per token. Default 1."),
            ("contextTTL", "Maximum duration of a response that is used for training. Default `5m`."),
            (
                "endpointRoleLabel",
                "Key of the label with the role of a pod, prefill or decode. Default: none.",
            ),
            PRODUCER,
            LOAD,
            (
                "useEncoderCacheFeatures",
                "Refused unless `false`: encoder caches are not supported as features.",
            ),
            (
                "encoderCacheMatchInfoProducerName",
                "Refused unless empty: encoder caches are not supported as features.",
            ),
            ("samplingMean", IGNORED),
            ("maxDecodeTokenSamplesForPrediction", IGNORED),
        ],
    ),
    told(
        "p2p-source-producer",
        "Names a pod in the header `x-kv-cache-source-host-port` if it has cached more of the prompt than the pod that computes it, which can then pull the KV cache.",
        &[
            PRODUCER,
            (
                "minCachedTokenDelta",
                "Minimum number of additional cached tokens of that pod. Default 1; must not be 0.",
            ),
            (
                "prefillProfileName",
                "Name of the profile whose pod computes the prompt, if that profile runs. Default `prefill`.",
            ),
        ],
    ),
    told(
        "session-id-producer",
        "Names the header or cookie with the session of a request, for `session-affinity-scorer` and `session-affinity-filter`.",
        &[
            ("headerName", "Name of the header. Either `headerName` or `cookieName` is required."),
            ("cookieName", "Name of the cookie."),
        ],
    ),
    // others
    grouped(
        "agent-identity",
        "other",
        "Puts the requests of one session of a coding agent into one flow, unless the header `x-llm-d-inference-fairness-id` \
         names their flow.",
        &[(
            "additionalSessionHeaders",
            "Headers with the session of an agent. They take precedence over `x-claude-code-session-id`, `x-session-affinity`, \
             `session-id` and `session_id`.",
        )],
    ),
    told(
        "destination-endpoint-served-verifier",
        "For tests: names the pod that served, as the proxy reports it, in the response header `x-conformance-test-served-endpoint`.",
        &[],
    ),
    told(
        "request-attribute-reporter",
        "Computes a number from the usage of each response with a CEL expression, and reports it to the proxy as dynamic metadata.",
        &[(
            "attributes",
            "A list with one entry: `key` (`name`, and `namespace`, default `envoy.lb`), `expression`, and optionally `condition`, \
             which must be true for a report. `expression` and `condition` can use `usage.prompt_tokens`, `usage.completion_tokens`, `usage.total_tokens` and \
             `usage.prompt_tokens_details.cached_tokens`. 0 is not reported.",
        )],
    ),
    told(
        "latency-slo-admitter",
        "Refuses requests of negative priority if no pod is predicted to meet their latency targets.",
        &[PREDICTOR],
    ),
    told(
        "sheddable-eviction-filter",
        "Flow control: only requests of negative priority are evicted. Always active, declared or not.",
        &[],
    ),
    told(
        "priority-then-time-eviction-order-policy",
        "Flow control: evicts requests of the lowest priority first, and among these the newest request. Always active, declared \
         or not.",
        &[],
    ),
    told(
        "probabilistic-admitter",
        "Refuses a share of the requests of negative priority, which grows with the load of the pool.",
        &[
            ("queueDepthThreshold", "Queue length at which a pod is full. Default 5."),
            (
                "kvCacheUtilThreshold",
                "Share of the KV cache in use, 0 to 1, at which a pod is full. Default 0.8.",
            ),
            ("power", "Exponent of the load in the share of refused requests, `load^power * k`. Default 5."),
            ("k", "Factor in the share of refused requests. Default 300."),
        ],
    ),
    told(
        "topology-extractor",
        "Reads the location of pods from their labels.",
        &[
            ("hostname", "Label of the host. Default `kubernetes.io/hostname`."),
            ("rack", "Label of the rack. Default `topology.kubernetes.io/rack`."),
            ("zone", "Label of the zone. Default `topology.kubernetes.io/zone`."),
            ("region", "Label of the region. Default `topology.kubernetes.io/region`."),
        ],
    ),
    told(
        "k8s-notification-source",
        "Watches Kubernetes objects. Only pods are supported, which are always watched.",
        &[
            ("group", "API group. Only the empty group is supported."),
            ("version", "API version. Only `v1` is supported. Required."),
            ("kind", "Kind of the objects. Only `Pod` is supported. Required."),
        ],
    ),
    told(
        "endpoint-notification-source",
        "Watches the pods of the pool. Always active, declared or not.",
        &[],
    ),
    told(
        "metrics-data-source",
        "Sets the URL at which the metrics of the engines are scraped.",
        &[
            ("scheme", "Scheme of the URL: `http` (default) or `https`."),
            ("path", "Path of the URL. Default `/metrics`."),
            ("port", "Port of the metrics. Default 0: the port of the pod."),
            (
                "insecureSkipVerify",
                "Whether to accept any certificate. Default `true`. `false` needs `caCertPath`.",
            ),
            ("caCertPath", "PEM file with the CA certificate."),
            ("clientCertPath", "PEM file with the client certificate. Needs `clientKeyPath` and `https`."),
            ("clientKeyPath", "PEM file with the key of the client certificate."),
            (
                "interval",
                "Time between two scrapes, such as `50ms`. Default: the picker's flag `--refresh-metrics-interval`.",
            ),
        ],
    ),
    told(
        "core-metrics-extractor",
        "Maps the metrics of each engine to their meaning.",
        &[
            (
                "engineLabelKey",
                "Key of the label that names the engine of a pod. It takes precedence over the built-in labels.",
            ),
            ("defaultEngine", "Engine of pods without the label. Default `vllm`."),
            ("engineConfigs", "List of engines, each with its `name` and the names of its metrics."),
        ],
    ),
    told(
        "file-discovery",
        "Reads the endpoints from a file instead of an InferencePool.",
        &[
            ("path", "Path of the file."),
            ("watchFile", "Accepted for compatibility: the file is always watched."),
        ],
    ),
    told("openai-parser", "Parses requests of the OpenAI API. Always active, declared or not.", &[]),
    told("anthropic-parser", "Parses requests of the Anthropic API. Always active, declared or not.", &[]),
    told("vllmhttp-parser", "Parses requests of vLLM's own HTTP API. Always active, declared or not.", &[]),
    told(
        "vllmgrpc-parser",
        "Parses requests of vLLM's gRPC service (`Generate`, `Embed`). The pool's `appProtocol` must be `kubernetes.io/h2c`.",
        &[],
    ),
    told(
        "vertexai-parser",
        "Parses requests of Vertex AI's prediction service over gRPC (`ChatCompletions`, `RawPredict`, `StreamRawPredict`).",
        &[],
    ),
    told(
        "passthrough-parser",
        "Forwards requests that no other parser understands. Always active, declared or not.",
        &[],
    ),
    told(
        "utilization-detector",
        "Flow control: measures how full a pod is by its queue and its KV cache. The default.",
        &[
            ("queueDepthThreshold", "Queue length at which a pod is full. Default 5."),
            (
                "kvCacheUtilThreshold",
                "Share of the KV cache in use, 0 to 1, at which a pod is full. Default 0.8.",
            ),
            (
                "metricsStalenessThreshold",
                "A pod counts as full if its metrics are at least this old. Default `200ms`.",
            ),
            ("headroom", "Only 0 is supported."),
        ],
    ),
    told(
        "concurrency-detector",
        "Flow control: measures how full a pod is by the requests in flight from this picker.",
        &[
            ("maxConcurrency", "Number of requests at which a pod is full. Default 100."),
            ("maxTokenConcurrency", "Number of prompt tokens at which a pod is full. Default 1000000."),
            (
                "concurrencyMode",
                "Measure that counts: `requests` (default), `tokens`, or `hybrid`, the larger of both.",
            ),
            ("headroom", "Only 0 is supported."),
        ],
    ),
    told(
        "static-usage-limit-policy",
        "Flow control: the same limit applies to all priorities. The default.",
        &[(
            "threshold",
            "Saturation of the pool up to which requests are dispatched; 1 means full. Default 1.",
        )],
    ),
    told(
        "priority-holdback-policy",
        "Flow control: lower priorities have lower limits, which keeps room for higher priorities.",
        &[
            ("minCeiling", "Limit of the lowest priority. Required."),
            ("maxCeiling", "Limit of the highest priority. Default 1."),
            ("shape", "Shape of the limits between both. Only `linear` is supported."),
            ("domain", "Variable of the linear shape: the `rank` of the priority (default), or its `value`."),
        ],
    ),
    told(
        "soft-reflective-ceiling-policy",
        "Flow control: dispatches lower priorities less often as the load of the pods grows.",
        &[],
    ),
    told("fcfs-ordering-policy", "Flow control: first come, first served. The default.", &[]),
    told("edf-ordering-policy", "Flow control: dispatches the request whose time to live ends first.", &[]),
    told(
        "slo-deadline-ordering-policy",
        "Flow control: dispatches the request with the earliest deadline for its first token.",
        &[],
    ),
    told(
        "global-strict-fairness-policy",
        "Flow control: orders the requests of all flows together. The default.",
        &[],
    ),
    told("round-robin-fairness-policy", "Flow control: flows take turns.", &[]),
    told(
        "program-aware-fairness",
        "Flow control: dispatches from the flow that has used the fewest tokens recently.",
        &[
            ("strategy", "Comparison of flows. Only `las` (least attained service) is supported."),
            ("lasHalfLifeSeconds", "Half-life of used tokens in seconds. Default 60."),
            ("lasWeightService", "Weight of the used tokens."),
            ("lasWeightHeadWait", "Weight of the waiting time of the flow's first request."),
            ("evictionTtlSeconds", "Seconds without requests after which a flow is forgotten. Default 3600."),
            ("evictionSweepSeconds", "Seconds between two checks for flows to forget."),
        ],
    ),
];

const COUNT: &[(&str, &str)] = &[(
    "maxNumOfEndpoints",
    "Number of pods to pick. The gateway tries the further pods if the first one fails. Default 1.",
)];

const SESSION: &[(&str, &str)] = &[
    (
        "strategy",
        "`encoded_endpoint_header` (default): a header of the session names the pod. `session_id`: the picker remembers the pod.",
    ),
    ("encodedEndpointHeaderConfig", "`header`: the header that names the pod. Default `x-session-token`."),
    (
        "sessionIdConfig",
        "`sources`: sources of the session ID, of which the first that is present counts: `header`, or `attribute: agent-identity`, \
         or `attribute: SessionIDDataKey` with the name of a `session-id-producer` in `producer`. Default: header `x-session-id`. \
         `evictionTtlSeconds`: seconds after which a session is forgotten, default 300. `evictionSweepSeconds`: without effect.",
    ),
    ("profileName", "Name of the profile whose pod the session belongs to."),
];

const TOKENS: &[(&str, &str)] = &[
    (
        "backend",
        "`vllm` asks a server, `estimate` uses the text instead of tokens. Default: `vllm` if the parameter `vllm` is set.",
    ),
    ("modelName", "Model whose tokenizer is used. Default: the model of the request."),
    ("vllm", "Server of the tokenizer: `url`, `timeout`, and `mmTimeout` for prompts with images."),
    ("estimate", "Must be empty or absent: there are no settings."),
    (
        "udsTokenizerConfig",
        "Refused: tokenizers on Unix sockets are not supported. Serve the tokenizer over HTTP.",
    ),
];

const PRECISE: &[(&str, &str)] = &[
    (
        "tokenProcessorConfig",
        "Division of prompts into blocks by the engines: `blockSizeTokens` (formerly `blockSize`) and `hashSeed`.",
    ),
    (
        "indexerConfig",
        "`kvBlockIndexConfig` limits the size of the index. `kvCacheBackendConfigs` sets the weight of a block by the tier that holds it.",
    ),
    (
        "kvEventsConfig",
        "Source of the events: `zmqEndpoint`, `topicFilter`, `engineType`, `discoverPods`, `podDiscoveryConfig`.",
    ),
    (
        "speculativeIndexing",
        "Whether a prompt counts as cached from the moment it is sent to a pod. Default `false`.",
    ),
    ("speculativeTTL", "Time for which such a prompt counts as cached without an event, such as `2s`."),
];
