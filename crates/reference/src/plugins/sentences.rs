//! What plugins and their parameters do, in sentences.

/// What is said about one type.
pub(super) struct Told {
    /// The type.
    pub(super) name: &'static str,
    /// Its group, where its name does not say it.
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

/// How names of a group end, its title, and what it is for.
pub(super) const GROUPS: [(&str, &str, &str); 7] = [
    ("-filter", "Filters", "They remove pods from the candidates."),
    (
        "-scorer",
        "Scorers",
        "They give each candidate a value from 0 to 1. A profile multiplies it by the scorer's `weight`.",
    ),
    ("-picker", "Pickers", "They choose among the candidates by the sum of their scores."),
    ("-handler", "Profile handlers", "They say which scheduling profiles run for a request."),
    ("-decider", "Deciders", "They say whether a request is worth a further stage."),
    ("-producer", "Producers", "They compute what other plugins read."),
    ("other", "Others", "Parsers, sources of metrics, and the policies of flow control."),
];

const PRODUCER: (&str, &str) = (
    "prefixMatchInfoProducerName",
    "Name of the `approx-prefix-cache-producer` to read. Default: the only one, made if none is declared.",
);
const PREDICTOR: (&str, &str) = (
    "latencyPredictionInfoProducerName",
    "Name of the `predicted-latency-producer` to read. Default: the only one, made if none is declared.",
);
const LOAD: (&str, &str) =
    ("inFlightLoadProducerName", "Name of the `inflight-load-producer` to read. Default: the built-in one.");
const AUTO_TUNE: (&str, &str) =
    ("autoTune", "Take block size and capacity from the metrics of the engines. Default `true`.");
const BLOCK_TOKENS: (&str, &str) = ("blockSizeTokens", "Tokens of a block. Default 16.");
const BLOCK_SIZE: (&str, &str) = ("blockSize", "Former name of `blockSizeTokens`.");
const MAX_TOKENS: (&str, &str) =
    ("maxPrefixTokensToMatch", "Tokens of a prompt that are looked at, from its beginning. Default 131072.");
const MAX_BLOCKS: (&str, &str) =
    ("maxPrefixBlocksToMatch", "Blocks of a prompt that are looked at, from its beginning. Default 2048.");
const CAPACITY: (&str, &str) =
    ("lruCapacityPerServer", "Blocks that are remembered for each pod. Default 31250; not 0.");
const SHARED: (&str, &str) = (
    "sharedPrefixAfter",
    "A beginning that so many different prompts share no longer ties them to a pod. Default 0: it always does.",
);
const TOPOLOGY: (&str, &str) =
    ("topologyProducerName", "Name of the `topology-extractor` to read. Default: the only one.");
const IGNORED: &str = "Taken for compatibility. It has no effect.";

pub(super) const PLUGINS: &[Told] = &[
    // filters
    grouped(
        "by-label",
        "-filter",
        "Deprecated: use `label-selector-filter`. Keeps pods whose label has one of some values.",
        &[
            ("label", "Key of the label."),
            ("validValues", "Values that are kept."),
            ("allowsNoLabel", "Keep pods without the label, too. Default `false`."),
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
    told("prefill-filter", "Keeps pods that prefill, by the label of their role.", &[]),
    told("decode-filter", "Keeps pods that decode, by the label of their role.", &[]),
    told("encode-filter", "Keeps pods that encode images and audio, by the label of their role.", &[]),
    told(
        "header-based-testing-filter",
        "For tests: keeps exactly the pods that a request header lists.",
        &[],
    ),
    told(
        "slo-headroom-tier-filter",
        "Keeps the pods that are predicted to answer in the time that the request asks for (`x-llm-d-slo-ttft-ms`, \
         `x-llm-d-slo-tpot-ms`).",
        &[
            ("epsilonExploreNeg", "How often the slow pods are kept instead, 0 to 1. Default 0.01."),
            PREDICTOR,
        ],
    ),
    told(
        "latency-scorer",
        "Prefers pods by what is left of the time that the request asks for, as predicted. Without predictions, by KV cache, queue \
         and prefix.",
        &[
            ("ttftWeight", "Weight of the time to the first token. Default 0.8."),
            ("tpotWeight", "Weight of the time for each further token. Default 0.2."),
            (
                "headroomSelectionStrategy",
                "`least` (default) prefers pods that are just fast enough, `most` the fastest.",
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
            ("affinityThreshold", "Share of the prompt that a pod must hold, 0 to 1. Default 0.8."),
            ("explorationProbability", "How often all pods are kept all the same, 0 to 1. Default 0."),
            (
                "maxTTFTPenaltyMs",
                "Milliseconds to the first token that a pod with the prefix may be slower than the fastest. Default 18000.",
            ),
            (
                "ttftSource",
                "How that time is estimated: `prefillThroughput` (default), or by a `latencyPredictor`.",
            ),
            PREDICTOR,
            ("peakPrefillThroughput", "Prompt tokens that a pod computes in a second. Default 15928."),
            PRODUCER,
            LOAD,
        ],
    ),
    told(
        "utilization-filter",
        "Keeps pods that are below all limits.",
        &[
            (
                "conditions",
                "Limits: `metric` (`active-requests`, `running-requests`, `waiting-queue`, `kv-cache-utilization`) and `maxValue`.",
            ),
            ("fallbackOnEmpty", "Keep all pods if none is below the limits. Default `false`."),
        ],
    ),
    told(
        "session-affinity-filter",
        "Keeps the pod that served the session before, as long as it is a candidate.",
        SESSION,
    ),
    told(
        "endpoint-attribute-filter",
        "Keeps pods whose attribute stands in a relation to a number.",
        &[
            ("attribute", "Name of the attribute."),
            ("producer", "Who provides it."),
            ("onMissing", "What becomes of pods without it: `Pass` (default) or `Fail`."),
            ("fallbackOnEmpty", "Keep all pods if none passes. Default `false`."),
            (
                "algorithm",
                "`type: threshold`, and `threshold` with `operator` (such as `LessThan`) and `value`. Required.",
            ),
        ],
    ),
    told(
        "topology-affinity-filter",
        "Keeps pods near the one that was picked before: a prefill pod near the decode pod.",
        &[
            ("minAffinity", "What they share at least: `host` (default), `rack`, `zone` or `region`."),
            TOPOLOGY,
        ],
    ),
    // scorers
    told(
        "endpoint-attribute-scorer",
        "Scores an attribute of the pod by its place in a range.",
        &[
            ("attributeKey", "Name of the attribute."),
            ("producer", "Who provides it."),
            (
                "algorithm",
                "`type`: `linear_lower_is_better` or `linear_higher_is_better`; `normalization`: `fixedRange` with `min` and `max`, or `adaptiveRange`, that of the candidates.",
            ),
        ],
    ),
    told(
        "topology-affinity-scorer",
        "Prefers pods near the one that was picked before: a prefill pod near the decode pod.",
        &[TOPOLOGY],
    ),
    told(
        "precise-prefix-cache-scorer",
        "A `precise-prefix-cache-producer` and its `prefix-cache-scorer` in one.",
        PRECISE,
    ),
    told("queue-scorer", "Prefers short queues, relative to the other candidates.", &[]),
    told(
        "running-requests-size-scorer",
        "Prefers pods that work on few requests, relative to the other candidates.",
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
        "Scores 0.5 with no queue, down to 0 at a threshold.",
        &[("threshold", "Length of the queue that scores 0. Default 128.")],
    ),
    told(
        "active-request-scorer",
        "Prefers pods to which this picker has sent few requests that still run.",
        &[
            ("idleThreshold", "A pod with at most so many requests scores 1. Default 0."),
            ("maxBusyScore", "Most that a pod above the threshold scores, 0 to 1. Default 1."),
            LOAD,
            ("requestTimeout", IGNORED),
        ],
    ),
    told(
        "token-load-scorer",
        "Prefers pods that work on few prompt tokens, those of this request included.",
        &[("queueThresholdTokens", "Tokens that score 0. Default 4194304."), LOAD],
    ),
    told(
        "prefix-cache-scorer",
        "Scores the share of the prompt that is probably in the pod's prefix cache.",
        &[
            PRODUCER,
            (
                "matchLengthWeight",
                "How much the length of the match counts beside its share, 0 to 1. Default 0.",
            ),
            ("matchLengthScaleTokens", "Length of a match that counts fully. Default 8192."),
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
        "Spreads requests whose beginning no pod knows over the pods that were used longest ago for such a request.",
        &[
            ("lruSize", "Pods that are remembered. Default 1024."),
            PRODUCER,
            ("prefixPluginType", IGNORED),
            ("prefixPluginName", IGNORED),
        ],
    ),
    told(
        "mm-embeddings-cache-scorer",
        "Prefers pods that were sent most of the request's images, audio and videos, and have them encoded already.",
        &[(
            "producerName",
            "Name of the `mm-embeddings-cache-producer` to read. Default: the only one, made if none is declared.",
        )],
    ),
    grouped(
        "context-length-aware",
        "-scorer",
        "Prefers pods whose labelled range of prompt lengths fits the request closely.",
        &[
            ("label", "Label with the range. Default `llm-d.ai/context-length-range`."),
            ("enableFiltering", "Remove pods whose range does not fit. Default `false`."),
        ],
    ),
    told("session-affinity-scorer", "Prefers the pod that served the session before.", SESSION),
    told(
        "header-label-affinity-scorer",
        "Prefers pods whose label equals a header of the request.",
        &[("headerName", "Name of the header."), ("labelKey", "Key of the label.")],
    ),
    // pickers
    told("max-score-picker", "The highest score; among equals, a random one.", COUNT),
    told("random-picker", "Any candidate, whatever its score.", COUNT),
    told("weighted-random-picker", "At random, in proportion to the score.", COUNT),
    // deciders
    told("always-disagg-pd-decider", "Every request is prefilled elsewhere.", &[]),
    told(
        "prefix-based-pd-decider",
        "Requests with enough prompt that the decode pod has not cached are prefilled elsewhere.",
        &[
            (
                "nonCachedTokens",
                "Tokens that the decode pod must lack. Default 0: no request is prefilled elsewhere.",
            ),
            ("promptTokens", "Tokens that the prompt must have. Default 0."),
        ],
    ),
    told(
        "always-disagg-multimodal-decider",
        "Requests with images, audio or video are encoded elsewhere.",
        &[],
    ),
    // handlers
    told("single-profile-handler", "Runs the only profile.", &[]),
    told(
        "disagg-profile-handler",
        "Runs `decode`, and `prefill` or `encode` where a decider finds that worth it.",
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
        "Deprecated: use `disagg-profile-handler`. Decode, and prefill above a threshold.",
        &[
            ("threshold", "Tokens that the decode pod must lack. 0: no request is prefilled elsewhere."),
            ("prefillProfile", "Name of the profile that prefills. Default `prefill`."),
            ("decodeProfile", "Name of the profile that decodes. Default `decode`."),
            ("deciderPluginName", "Name of a decider, in the place of the threshold."),
            ("hashBlockSize", IGNORED),
            ("primaryPort", IGNORED),
            ("prefixPluginType", IGNORED),
            ("prefixPluginName", IGNORED),
        ],
    ),
    told(
        "data-parallel-profile-handler",
        "Sends to one port of the pod, and names the rank to use in a header.",
        &[("primaryPort", "That port. Default 8000.")],
    ),
    told("header-profile-handler", "A header of the request names the profile.", &[]),
    told(
        "disagg-headers-handler",
        "Tells the sidecar where to prefill. It always works, declared or not.",
        &[],
    ),
    told("prefill-header-handler", "Former name of `disagg-headers-handler`.", &[]),
    // producers
    told(
        "approx-prefix-cache-producer",
        "Remembers which pod was sent which prompt.",
        &[AUTO_TUNE, BLOCK_SIZE, BLOCK_TOKENS, MAX_TOKENS, MAX_BLOCKS, CAPACITY, SHARED],
    ),
    told(
        "mm-embeddings-cache-producer",
        "Remembers which pods were sent which images, audio and videos: by the hashes of a `token-producer` that asks a tokenizer, \
         else by their addresses or data.",
        &[
            (
                "cacheSizeInMBPerServer",
                "MiB of a model server's encoder cache. An item is taken to need 2. Default 4096; up to 1048576.",
            ),
            ("cacheSizeInMB", "Former name of `cacheSizeInMBPerServer`."),
        ],
    ),
    told(
        "burst-prefix-cache-producer",
        "Keeps requests together that come at once and share a prompt, so that it is computed once. Each request with a prompt \
         waits for the end of a window. Name it in `prefix-cache-scorer`.",
        &[
            (
                "windowDurationMs",
                "Milliseconds of a window. It opens with its first request. Default 100; 1 to 10000.",
            ),
            ("maxPerReplica", "The most requests with one prompt for one pod. Default -1: no limit."),
            ("blockSizeTokens", "Tokens of a block. Default 64."),
            (
                "maxPrefixTokensToMatch",
                "Tokens of a prompt that are compared, from its beginning. Default 0: 2048 blocks; else at least one block.",
            ),
            (
                "minColocateBlocks",
                "Requests with different prompts are kept together too, where at least so many blocks from the beginning are the \
                 same, until a pod has its fair share. Default 0: they are not.",
            ),
            (
                "maxBatchSize",
                "The most requests of a window. Further ones neither wait nor are kept together. Default 1000; -1: no limit.",
            ),
            (
                "balanceBy",
                "What is spread evenly over the pods: `requests` (default), or `tokens`, the blocks that a pod has to compute.",
            ),
        ],
    ),
    told(
        "inflight-load-producer",
        "Counts requests and tokens in flight. They are always counted; a declaration lets others name it.",
        &[
            (
                "addEstimatedOutputTokens",
                "Count tokens that are yet to be generated, too: not supported, so only `false`.",
            ),
            ("outputRatio", IGNORED),
            ("maxEstimatedOutputTokens", IGNORED),
            PRODUCER,
            ("syncCrossReplicaState", IGNORED),
        ],
    ),
    told(
        "token-producer",
        "Says where the tokens of prompts come from. Without an address, the text stands for them.",
        TOKENS,
    ),
    grouped("tokenizer", "-producer", "Former name of `token-producer`.", TOKENS),
    told(
        "precise-prefix-cache-producer",
        "Knows from the engines' KV cache events which pod holds which prompt.",
        PRECISE,
    ),
    told(
        "predicted-latency-producer",
        "Asks a predictor how long a request would take on each pod, and tells it how long requests took. The picker's \
         environment says where it is: `PREDICTION_SERVER_URL` and `TRAINING_SERVER_URL`.",
        &[
            (
                "streamingMode",
                "Tell the time to the first token and that for each further one apart. Default `false`: the whole response \
                 counts as the first token.",
            ),
            ("predictInProduce", "Ask for predictions. Default `true`; `false`: the predictor only learns."),
            ("sloBufferFactor", "What the wanted time for a token is multiplied with. Default 1; above 0."),
            ("contextTTL", "A response that takes longer teaches nothing. Default `5m`."),
            ("endpointRoleLabel", "Label of pods that says whether they prefill or decode. Default: none."),
            PRODUCER,
            LOAD,
            ("useEncoderCacheFeatures", "Refused unless `false`: caches of encoders are not followed."),
            ("encoderCacheMatchInfoProducerName", "Refused unless empty, for the same reason."),
            ("samplingMean", IGNORED),
            ("maxDecodeTokenSamplesForPrediction", IGNORED),
        ],
    ),
    told(
        "p2p-source-producer",
        "Names in header `x-kv-cache-source-host-port` a pod that has more of the prompt than the one that computes it.",
        &[
            PRODUCER,
            ("minCachedTokenDelta", "Tokens that it must have more. Default 1; not 0."),
            (
                "prefillProfileName",
                "Profile whose pod computes the prompt, where there is one. Default `prefill`.",
            ),
        ],
    ),
    told(
        "session-id-producer",
        "Says where the session of a request stands, for `session-affinity-scorer` and `session-affinity-filter`.",
        &[
            ("headerName", "Name of a header. One of the two is required."),
            ("cookieName", "Name of a cookie."),
        ],
    ),
    // others
    grouped(
        "agent-identity",
        "other",
        "Requests of one session of a coding agent are one flow, where `x-llm-d-inference-fairness-id` does not say whom they \
         belong to.",
        &[(
            "additionalSessionHeaders",
            "Headers in which agents name their session, before `x-claude-code-session-id`, `x-session-affinity`, `session-id` and \
             `session_id`.",
        )],
    ),
    told(
        "destination-endpoint-served-verifier",
        "For tests: header `x-conformance-test-served-endpoint` of the response says which pod served, as the proxy reports it.",
        &[],
    ),
    told(
        "request-attribute-reporter",
        "Tells the proxy a number about each response, as dynamic metadata at its end: what a CEL expression makes of the usage in it.",
        &[(
            "attributes",
            "One entry: `key` (`name`, and `namespace`, which is `envoy.lb` by default), `expression`, and `condition`, which must hold \
             where it is given. Both may read `usage.prompt_tokens`, `usage.completion_tokens`, `usage.total_tokens` and \
             `usage.prompt_tokens_details.cached_tokens`. 0 is not reported.",
        )],
    ),
    told(
        "latency-slo-admitter",
        "Refuses requests of negative priority that no pod is predicted to answer in the time that they ask for.",
        &[PREDICTOR],
    ),
    told(
        "sheddable-eviction-filter",
        "Flow control: only requests of negative priority are evicted. It is the only such filter, declared or not.",
        &[],
    ),
    told(
        "priority-then-time-eviction-order-policy",
        "Flow control: the lowest priority is evicted first, and of these the newest request. It is the only such order, declared \
         or not.",
        &[],
    ),
    told(
        "probabilistic-admitter",
        "Refuses requests of negative priority, ever more of them as the pool fills up.",
        &[
            ("queueDepthThreshold", "Length of a full queue. Default 5."),
            ("kvCacheUtilThreshold", "Share of a full KV cache, 0 to 1. Default 0.8."),
            ("power", "How steeply refusals begin. Default 5."),
            ("k", "How fast they grow. Default 300."),
        ],
    ),
    told(
        "topology-extractor",
        "Reads from labels where pods are.",
        &[
            ("hostname", "Label of the host. Default `kubernetes.io/hostname`."),
            ("rack", "Label of the rack. Default `topology.kubernetes.io/rack`."),
            ("zone", "Label of the zone. Default `topology.kubernetes.io/zone`."),
            ("region", "Label of the region. Default `topology.kubernetes.io/region`."),
        ],
    ),
    told(
        "k8s-notification-source",
        "Follows Kubernetes objects. Only pods, which are followed anyway.",
        &[
            ("group", "Only the empty one."),
            ("version", "Only `v1`. Required."),
            ("kind", "Only `Pod`. Required."),
        ],
    ),
    told(
        "endpoint-notification-source",
        "Follows the pods of the pool. It always works, declared or not.",
        &[],
    ),
    told(
        "metrics-data-source",
        "Says where the metrics of the engines are scraped.",
        &[
            ("scheme", "`http` (default) or `https`."),
            ("path", "Path of the page. Default `/metrics`."),
            ("port", "Another port than that of the pod. Default 0: the pod's."),
            ("insecureSkipVerify", "Accept any certificate. Default `true`; `false` needs `caCertPath`."),
            ("caCertPath", "PEM file of the authority."),
            ("clientCertPath", "PEM file of the certificate to show. Needs `clientKeyPath` and `https`."),
            ("clientKeyPath", "PEM file of its key."),
            ("interval", "Time between two scrapes, as `50ms`. Default: that of the picker's flag."),
        ],
    ),
    told(
        "core-metrics-extractor",
        "Says which metric of which engine means what.",
        &[
            ("engineLabelKey", "Label of pods that names the engine, before the built-in ones."),
            ("defaultEngine", "Engine of pods without the label. Default `vllm`."),
            ("engineConfigs", "For each engine, its `name` and the names of its metrics."),
        ],
    ),
    told(
        "file-discovery",
        "Takes the pods from a file in the place of an InferencePool.",
        &[("path", "The file."), ("watchFile", "Taken for compatibility: the file is always watched.")],
    ),
    told("openai-parser", "Reads requests of OpenAI's API. It always works, declared or not.", &[]),
    told("anthropic-parser", "Reads requests of Anthropic's API. It always works, declared or not.", &[]),
    told("vllmhttp-parser", "Reads requests of vLLM's own API. It always works, declared or not.", &[]),
    told(
        "vllmgrpc-parser",
        "Understands vLLM's service over gRPC (`Generate`, `Embed`). The pool's `appProtocol` must be `kubernetes.io/h2c`.",
        &[],
    ),
    told(
        "vertexai-parser",
        "Understands Vertex AI's prediction service over gRPC (`ChatCompletions`, `RawPredict`, `StreamRawPredict`).",
        &[],
    ),
    told(
        "passthrough-parser",
        "Lets requests through that no other parser reads. It always works, declared or not.",
        &[],
    ),
    told(
        "utilization-detector",
        "Flow control: a pod is full by its queue or its KV cache. The default.",
        &[
            ("queueDepthThreshold", "Length of a full queue. Default 5."),
            ("kvCacheUtilThreshold", "Share of a full KV cache, 0 to 1. Default 0.8."),
            ("metricsStalenessThreshold", "Age of metrics at which a pod counts as full. Default `200ms`."),
            ("headroom", "Only 0."),
        ],
    ),
    told(
        "concurrency-detector",
        "Flow control: a pod is full by the requests that this picker has sent there.",
        &[
            ("maxConcurrency", "Requests of a full pod. Default 100."),
            ("maxTokenConcurrency", "Prompt tokens of a full pod. Default 1000000."),
            (
                "concurrencyMode",
                "Which of them counts: `requests` (default), `tokens` or `hybrid`, the fuller of both.",
            ),
            ("headroom", "Only 0."),
        ],
    ),
    told(
        "static-usage-limit-policy",
        "Flow control: all priorities may use the pods up to one limit. The default.",
        &[("threshold", "The limit, where 1 is full. Default 1.")],
    ),
    told(
        "priority-holdback-policy",
        "Flow control: the lower the priority, the lower the limit.",
        &[
            ("minCeiling", "Limit of the lowest priority. Required."),
            ("maxCeiling", "Limit of the highest. Default 1."),
            ("shape", "Only `linear`."),
            ("domain", "What it is linear in: `rank` of the priority (default), or its `value`."),
        ],
    ),
    told("soft-reflective-ceiling-policy", "Flow control: limits follow how full the pods are.", &[]),
    told("fcfs-ordering-policy", "Flow control: first come, first served. The default.", &[]),
    told("edf-ordering-policy", "Flow control: the request whose time to live ends first.", &[]),
    told(
        "slo-deadline-ordering-policy",
        "Flow control: the request whose wanted time to the first token ends first.",
        &[],
    ),
    told("global-strict-fairness-policy", "Flow control: one order for all flows. The default.", &[]),
    told("round-robin-fairness-policy", "Flow control: flows take turns.", &[]),
    told(
        "program-aware-fairness",
        "Flow control: the flow that has used the fewest tokens lately goes first.",
        &[
            ("strategy", "How flows are compared; `las`, the least attained service, is the only one."),
            ("lasHalfLifeSeconds", "Time after which used tokens count half. Default 60."),
            ("lasWeightService", "How much the used tokens count."),
            ("lasWeightHeadWait", "How much the wait of the flow's first request counts."),
            ("evictionTtlSeconds", "Time without requests after which a flow is forgotten. Default 3600."),
            ("evictionSweepSeconds", "Time between two looks for flows to forget."),
        ],
    ),
];

const COUNT: &[(&str, &str)] = &[(
    "maxNumOfEndpoints",
    "Pods that are chosen; the further ones are for the gateway to try next. Default 1.",
)];

const SESSION: &[(&str, &str)] = &[
    (
        "strategy",
        "`encoded_endpoint_header` (default): the session's header names the pod. `session_id`: the picker remembers it.",
    ),
    ("encodedEndpointHeaderConfig", "`header`: the header that names the pod. Default `x-session-token`."),
    (
        "sessionIdConfig",
        "`sources`: where the id of the session stands, the first that is there: `header`, or `attribute: agent-identity`, or \
         `attribute: SessionIDDataKey` with the name of a `session-id-producer` in `producer`. Default: header `x-session-id`. \
         `evictionTtlSeconds`: after how long a session is forgotten, default 300. `evictionSweepSeconds`: has no effect.",
    ),
    ("profileName", "Profile whose pod the session belongs to."),
];

const TOKENS: &[(&str, &str)] = &[
    (
        "backend",
        "`vllm`: ask a server. `estimate`: the text stands for the tokens. Default: `vllm` if that is set.",
    ),
    ("modelName", "Model whose tokenizer is asked. Default: that of the request."),
    ("vllm", "The server: `url`, `timeout`, and `mmTimeout` for prompts with images."),
    ("estimate", "Empty, or absent: it has no settings."),
    ("udsTokenizerConfig", "Refused: serve the tokenizer over HTTP."),
];

const PRECISE: &[(&str, &str)] = &[
    (
        "tokenProcessorConfig",
        "How the engines cut prompts: `blockSizeTokens` (formerly `blockSize`) and `hashSeed`.",
    ),
    (
        "indexerConfig",
        "How much is remembered: `kvBlockIndexConfig`; what a block counts for, by where it is: `kvCacheBackendConfigs`.",
    ),
    (
        "kvEventsConfig",
        "Where the events come from: `zmqEndpoint`, `topicFilter`, `engineType`, `discoverPods`, `podDiscoveryConfig`.",
    ),
    ("speculativeIndexing", "A prompt counts as held from the moment it is sent there. Default `false`."),
    ("speculativeTTL", "How long that holds without an event, as `2s`."),
];
