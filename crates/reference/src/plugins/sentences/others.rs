//! Parsers, sources of metrics, and policies of flow control.

use super::{Description, PREDICTOR, described, grouped};

pub(super) const PLUGINS: &[Description] = &[
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
    described(
        "destination-endpoint-served-verifier",
        "For tests: names the pod that served, as the proxy reports it, in the response header `x-conformance-test-served-endpoint`.",
        &[],
    ),
    described(
        "request-attribute-reporter",
        "Computes a number from the usage of each response with a CEL expression, and reports it to the proxy as dynamic metadata.",
        &[(
            "attributes",
            "A list with one entry: `key` (`name`, and `namespace`, default `envoy.lb`), `expression`, and optionally `condition`, \
             which must be true for a report. `expression` and `condition` can use `usage.prompt_tokens`, `usage.completion_tokens`, `usage.total_tokens` and \
             `usage.prompt_tokens_details.cached_tokens`. 0 is not reported.",
        )],
    ),
    described(
        "latency-slo-admitter",
        "Refuses requests of negative priority if no pod is predicted to meet their latency targets.",
        &[PREDICTOR],
    ),
    described(
        "sheddable-eviction-filter",
        "Flow control: only requests of negative priority are evicted. Always active, declared or not.",
        &[],
    ),
    described(
        "priority-then-time-eviction-order-policy",
        "Flow control: evicts requests of the lowest priority first, and among these the newest request. Always active, declared \
         or not.",
        &[],
    ),
    described(
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
    described(
        "topology-extractor",
        "Reads the location of pods from their labels.",
        &[
            ("hostname", "Label of the host. Default `kubernetes.io/hostname`."),
            ("rack", "Label of the rack. Default `topology.kubernetes.io/rack`."),
            ("zone", "Label of the zone. Default `topology.kubernetes.io/zone`."),
            ("region", "Label of the region. Default `topology.kubernetes.io/region`."),
        ],
    ),
    described(
        "k8s-notification-source",
        "Watches Kubernetes objects. Only pods are supported, which are always watched.",
        &[
            ("group", "API group. Only the empty group is supported."),
            ("version", "API version. Only `v1` is supported. Required."),
            ("kind", "Kind of the objects. Only `Pod` is supported. Required."),
        ],
    ),
    described(
        "endpoint-notification-source",
        "Watches the pods of the pool. Always active, declared or not.",
        &[],
    ),
    described(
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
    described(
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
    described(
        "file-discovery",
        "Reads the endpoints from a file instead of an InferencePool.",
        &[
            ("path", "Path of the file."),
            ("watchFile", "Accepted for compatibility: the file is always watched."),
        ],
    ),
    described(
        "local-syncer",
        "Shares state within one process: replicas of the picker share none. `dataLayer.crossReplica` may name it.",
        &[],
    ),
    described("openai-parser", "Parses requests of the OpenAI API. Always active, declared or not.", &[]),
    described(
        "anthropic-parser",
        "Parses requests of the Anthropic API. Always active, declared or not.",
        &[],
    ),
    described(
        "vllmhttp-parser",
        "Parses requests of vLLM's own HTTP API. Always active, declared or not.",
        &[],
    ),
    described(
        "vllmgrpc-parser",
        "Parses requests of vLLM's gRPC service (`Generate`, `Embed`). The pool's `appProtocol` must be `kubernetes.io/h2c`.",
        &[],
    ),
    described(
        "vertexai-parser",
        "Parses requests of Vertex AI's prediction service over gRPC (`ChatCompletions`, `RawPredict`, `StreamRawPredict`).",
        &[],
    ),
    described(
        "passthrough-parser",
        "Forwards requests that no other parser understands. Always active, declared or not.",
        &[],
    ),
    described(
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
    described(
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
    described(
        "max-saturation-detector",
        "Flow control: the pool is as full as the fullest of several detectors says.",
        &[
            ("detectors", "Names of detectors, at least one. To drop full pods, list them in profiles too."),
            (
                "stages",
                "The stages, `prefill` and `decode`, whose pods each detector measures; all for a detector that is not listed. \
                 Only if some pods have no other role than prefill; otherwise all detectors measure all pods.",
            ),
        ],
    ),
    described(
        "static-usage-limit-policy",
        "Flow control: the same limit applies to all priorities. The default.",
        &[(
            "threshold",
            "Saturation of the pool up to which requests are dispatched; 1 means full. Default 1.",
        )],
    ),
    described(
        "priority-holdback-policy",
        "Flow control: lower priorities have lower limits, which keeps room for higher priorities.",
        &[
            ("minCeiling", "Limit of the lowest priority. Required."),
            ("maxCeiling", "Limit of the highest priority. Default 1."),
            ("shape", "Shape of the limits between both. Only `linear` is supported."),
            ("domain", "Variable of the linear shape: the `rank` of the priority (default), or its `value`."),
        ],
    ),
    described(
        "soft-reflective-ceiling-policy",
        "Flow control: dispatches lower priorities less often as the load of the pods grows.",
        &[],
    ),
    described("fcfs-ordering-policy", "Flow control: first come, first served. The default.", &[]),
    described(
        "edf-ordering-policy",
        "Flow control: dispatches the request whose time to live ends first.",
        &[],
    ),
    described(
        "slo-deadline-ordering-policy",
        "Flow control: dispatches the request with the earliest deadline for its first token.",
        &[],
    ),
    described(
        "global-strict-fairness-policy",
        "Flow control: orders the requests of all flows together. The default.",
        &[],
    ),
    described("round-robin-fairness-policy", "Flow control: flows take turns.", &[]),
    described(
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
