//! What plugins and their parameters do, in sentences. One file per group of plugins.

mod choices;
mod filters;
mod others;
mod producers;
mod scorers;

/// The sentences about one plugin type.
pub(super) struct Description {
    /// The type.
    pub(super) name: &'static str,
    /// Its group, if the name does not end with a group's suffix.
    pub(super) group: &'static str,
    /// What it does.
    pub(super) does: &'static str,
    /// Its parameters and their effects.
    pub(super) parameters: &'static [(&'static str, &'static str)],
}

const fn described(
    name: &'static str,
    does: &'static str,
    parameters: &'static [(&'static str, &'static str)],
) -> Description {
    Description { name, group: "", does, parameters }
}

const fn grouped(
    name: &'static str,
    group: &'static str,
    does: &'static str,
    parameters: &'static [(&'static str, &'static str)],
) -> Description {
    Description { name, group, does, parameters }
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

/// All sentences, in the order of the groups.
pub(super) fn all() -> impl Iterator<Item = &'static Description> {
    [filters::PLUGINS, scorers::PLUGINS, choices::PLUGINS, producers::PLUGINS, others::PLUGINS]
        .into_iter()
        .flatten()
}
