//! Producers of data.

use super::{
    AUTO_TUNE, BLOCK_SIZE, BLOCK_TOKENS, CAPACITY, Description, IGNORED, LOAD, MAX_BLOCKS, MAX_TOKENS,
    PRECISE, PRODUCER, SHARED, TOKENS, described, grouped,
};

pub(super) const PLUGINS: &[Description] = &[
    described(
        "approx-prefix-cache-producer",
        "Remembers which prompts were sent to which pod.",
        &[AUTO_TUNE, BLOCK_SIZE, BLOCK_TOKENS, MAX_TOKENS, MAX_BLOCKS, CAPACITY, SHARED],
    ),
    described(
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
    described(
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
    described(
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
    described(
        "token-producer",
        "Determines the source of the tokens of prompts. Without an address, the text is used instead of tokens.",
        TOKENS,
    ),
    grouped("tokenizer", "-producer", "Former name of `token-producer`.", TOKENS),
    described(
        "precise-prefix-cache-producer",
        "Learns from the engines' KV cache events which pod holds which prompt.",
        PRECISE,
    ),
    described(
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
                "Whether the predictor is told how many images, audio and videos a request has, and how many of them a pod has \
                 probably encoded. Default: `false`.",
            ),
            (
                "encoderCacheMatchInfoProducerName",
                "Name of the `mm-embeddings-cache-producer` that knows what pods have encoded. Used only with \
                 `useEncoderCacheFeatures`. Default: the first one.",
            ),
            ("samplingMean", IGNORED),
            ("maxDecodeTokenSamplesForPrediction", IGNORED),
        ],
    ),
    grouped(
        "latency-observer-producer-hub",
        "-producer",
        "Measures the time to the first token of streamed responses at each pod, and how many requests were in flight there. It \
         needs no metrics of the pods, and computes at requests, so an entry in `dataLayer.sources` is allowed and not needed.",
        &[
            ("intervalDuration", "How often percentiles are computed again. Default `1s`."),
            (
                "maxObservationAge",
                "How old the requests are of which percentiles are computed. Default `3m`.",
            ),
            ("maxRequests", "How many requests these are at most. Default 100."),
            ("minRequests", "How many requests a pod needs before it counts as known. Default 10."),
            ("lowPercentile", "Percentile of the times that stands for a low load. Default 25."),
            ("typicalPercentile", "Percentile that stands for the typical load. Default 50."),
            ("windowSize", "How many requests are kept for each pod, at most 100000. Default 5000."),
            (
                "bucketDuration",
                "The 10th percentile of each time of this length is kept. The 10th percentile of these is the time without load. \
                 Default `1m`.",
            ),
            (
                "bucketHistorySize",
                "How many of them are kept, 2 to 100000. When there are more, the slowest is dropped. Default 1000.",
            ),
            LOAD,
        ],
    ),
    described(
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
    described(
        "session-id-producer",
        "Names the header or cookie with the session of a request, for `session-affinity-scorer` and `session-affinity-filter`.",
        &[
            ("headerName", "Name of the header. Either `headerName` or `cookieName` is required."),
            ("cookieName", "Name of the cookie."),
        ],
    ),
];
