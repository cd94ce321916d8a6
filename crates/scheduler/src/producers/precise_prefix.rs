//! `precise-prefix-cache-producer`: learns from the engines' events which endpoint holds which prompt.

use longboat_kv_events::Limits;
use serde_json::Value;

use crate::{
    filters::label_selector,
    numbers::millis,
    precise::{EndpointEvents, EventSource, ListenForEvents, PreciseSettings},
    prelude::*,
    quantity,
};

/// The parameters, also those of `precise-prefix-cache-scorer`, which is its own producer.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct RawParameters {
    token_processor_config: Option<TokenProcessor>,
    indexer_config: Indexer,
    kv_events_config: KvEvents,
    speculative_indexing: bool,
    #[serde(rename = "speculativeTTL")]
    speculative_ttl: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct TokenProcessor {
    block_size: Option<usize>,
    block_size_tokens: Option<usize>,
    hash_seed: Option<String>,
    hash_algorithm: HashAlgorithm,
}

/// How llm-d names blocks in its index. Nothing outside of a picker sees these names, so the index here has its own.
#[derive(Debug, Default, Deserialize)]
enum HashAlgorithm {
    #[default]
    #[serde(rename = "cbor-fnv", alias = "")]
    CborFnv,
    #[serde(rename = "xxh64")]
    Xxh64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Indexer {
    /// Where it was in earlier releases.
    token_processor_config: Option<TokenProcessor>,
    tokenizers_pool_config: Option<Value>,
    kv_block_index_config: Option<BlockIndex>,
    kv_cache_backend_configs: Option<Vec<Backend>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct BlockIndex {
    in_memory_config: Option<InMemory>,
    cost_aware_memory_config: Option<CostAware>,
    redis_config: Option<Value>,
    // Accepted without effect: the index is always among the metrics, and is never logged.
    #[serde(rename = "enableMetrics")]
    _enable_metrics: Option<bool>,
    #[serde(rename = "metricsLoggingInterval")]
    _metrics_logging_interval: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct InMemory {
    size: Option<usize>,
    // Entries are counted by endpoint here, so `size` bounds them all.
    #[serde(rename = "podCacheSize")]
    _pod_cache_size: Option<usize>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct CostAware {
    size: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Backend {
    name: String,
    weight: f64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct KvEvents {
    zmq_endpoint: Option<String>,
    topic_filter: Option<String>,
    // Every endpoint is followed by a task of its own.
    #[serde(rename = "concurrency")]
    _concurrency: Option<usize>,
    engine_type: Option<String>,
    discover_pods: Option<bool>,
    pod_discovery_config: Option<PodDiscovery>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct PodDiscovery {
    pod_label_selector: Option<String>,
    pod_namespace: Option<String>,
    socket_port: Option<u16>,
    replay_socket_port: Option<u16>,
}

const PORT: u16 = 5557;
const TOPIC: &str = "kv@";
const SPECULATIVE_MS: u64 = 2000;
/// The approximate size of an entry in bytes, with all tables that refer to it.
const ENTRY: usize = 256;
/// The default number of entries: the blocks of a hundred large engines, about 1 GiB.
const ENTRIES: usize = 1 << 22;
/// The most entries, even if more are configured: 4 GiB. Configurations of llm-d have its default of 100 million.
const MAX_ENTRIES: usize = 1 << 24;
const MAX_BLOCK: usize = 1 << 16;

pub(crate) fn build(parameters: &Parameters<'_>, builder: &mut Builder) -> Result<Plugin, ConfigError> {
    let raw: RawParameters = parameters.read()?;
    let producer = declare(raw, parameters, builder)?;
    builder.precise_producers.push(producer);
    Ok(Plugin::default())
}

/// Declares the producer. Returns its place among the producers.
pub(crate) fn declare(
    raw: RawParameters,
    parameters: &Parameters<'_>,
    builder: &mut Builder,
) -> Result<usize, ConfigError> {
    let mut settings = settings(raw, parameters)?;
    let entries = settings.limits.entries;
    if entries > MAX_ENTRIES {
        let why = format!(
            "indexerConfig.kvBlockIndexConfig: the index holds at most {MAX_ENTRIES} blocks, and not {entries}"
        );
        builder.warnings.push((parameters.name.to_owned(), why));
        settings.limits.entries = MAX_ENTRIES;
    }
    Ok(builder.add(parameters, PrefixSource::Precise(settings)))
}

fn settings(raw: RawParameters, parameters: &Parameters<'_>) -> Result<PreciseSettings, ConfigError> {
    let mut limits = Limits { entries: ENTRIES, ..Limits::default() };
    let processor = raw.token_processor_config.or(raw.indexer_config.token_processor_config);
    if let Some(processor) = processor {
        limits.block_tokens =
            processor.block_size_tokens.or(processor.block_size).unwrap_or(limits.block_tokens);
        limits.seed = processor.hash_seed.unwrap_or_default();
    }
    if limits.block_tokens == 0 || limits.block_tokens > MAX_BLOCK {
        let found = limits.block_tokens;
        return Err(parameters.invalid(
            "tokenProcessorConfig.blockSizeTokens",
            format!("expected the engine's block size, or a divisor of it, found {found}"),
        ));
    }
    parameters.require(
        raw.indexer_config.tokenizers_pool_config.is_none(),
        "indexerConfig.tokenizersPoolConfig",
        "no tokenizer runs in this process; declare a token-producer with modelName, and vllm.url, \
             the address of one",
    )?;
    if let Some(index) = raw.indexer_config.kv_block_index_config {
        limits.entries = entries(index, parameters)?.unwrap_or(limits.entries);
    }
    if let Some(backends) = raw.indexer_config.kv_cache_backend_configs {
        for (index, backend) in backends.iter().enumerate() {
            let field = format!("indexerConfig.kvCacheBackendConfigs[{index}].weight");
            parameters.share(&field, backend.weight)?;
        }
        limits.weights =
            backends.into_iter().map(|backend| (backend.name.to_lowercase(), backend.weight)).collect();
    }
    let speculative = match raw.speculative_ttl.as_deref() {
        None | Some("") => SPECULATIVE_MS,
        Some(text) => millis(parameters.duration("speculativeTTL", text)?).max(1),
    };
    Ok(PreciseSettings {
        limits,
        speculative_ms: raw.speculative_indexing.then_some(speculative),
        events: events(raw.kv_events_config, parameters)?,
    })
}

fn entries(index: BlockIndex, parameters: &Parameters<'_>) -> Result<Option<usize>, ConfigError> {
    parameters.require(
        index.redis_config.is_none(),
        "indexerConfig.kvBlockIndexConfig.redisConfig",
        "blocks are kept in memory only; use inMemoryConfig",
    )?;
    let by_count = index.in_memory_config.and_then(|memory| memory.size);
    let by_bytes = match index.cost_aware_memory_config.and_then(|memory| memory.size) {
        None => None,
        Some(text) => {
            let bytes = quantity::parse(&text).map_err(|_| {
                parameters.invalid(
                    "indexerConfig.kvBlockIndexConfig.costAwareMemoryConfig.size",
                    format!("expected a size such as 2GiB, found \"{text}\""),
                )
            })?;
            Some(bytes / ENTRY)
        }
    };
    // If both are there, llm-d uses the index whose size is in bytes.
    let entries = by_bytes.or(by_count);
    parameters.require(
        entries != Some(0),
        "indexerConfig.kvBlockIndexConfig",
        "expected a size of at least one block",
    )?;
    Ok(entries)
}

fn events(raw: KvEvents, parameters: &Parameters<'_>) -> Result<EventSource, ConfigError> {
    // vLLM and SGLang publish the same events.
    if let Some(engine) = raw.engine_type.filter(|engine| !matches!(engine.as_str(), "" | "vllm" | "sglang"))
    {
        return Err(parameters
            .invalid("kvEventsConfig.engineType", format!("expected vllm or sglang, found \"{engine}\"")));
    }
    let listen = match raw.zmq_endpoint {
        None => Some(ListenForEvents { address: format!("*:{PORT}"), required: false }),
        Some(address) if address.is_empty() => None,
        Some(address) => Some(listen(&address).ok_or_else(|| {
            parameters.invalid(
                "kvEventsConfig.zmqEndpoint",
                format!(
                    "expected an address to listen on, tcp://*:PORT or tcp://IP:PORT, found \
                 \"{address}\""
                ),
            )
        })?),
    };
    let endpoints = if raw.discover_pods.unwrap_or(true) {
        let discovery = raw.pod_discovery_config.unwrap_or_default();
        parameters.require(
            discovery.pod_namespace.is_none_or(|namespace| namespace.is_empty()),
            "kvEventsConfig.podDiscoveryConfig.podNamespace",
            "the picker watches the pods of the pool, \
                 which has one namespace; remove the field",
        )?;
        let port = discovery.socket_port.unwrap_or(PORT);
        let replay_port = discovery.replay_socket_port.filter(|port| *port != 0);
        parameters.require(
            port != 0 && replay_port != Some(port),
            "kvEventsConfig.podDiscoveryConfig",
            "socketPort and replaySocketPort must differ",
        )?;
        let labels = labels(discovery.pod_label_selector.as_deref().unwrap_or_default(), parameters)?;
        Some(EndpointEvents { port, replay_port, labels })
    } else {
        None
    };
    parameters.require(
        endpoints.is_some() || listen.is_some(),
        "kvEventsConfig",
        "no source of events; set discoverPods, or remove zmqEndpoint, or set \
             zmqEndpoint to an address to listen on",
    )?;
    Ok(EventSource { topic: raw.topic_filter.unwrap_or_else(|| TOPIC.to_owned()), endpoints, listen })
}

fn listen(address: &str) -> Option<ListenForEvents> {
    let address = address.strip_prefix("tcp://")?;
    let port = match address.strip_prefix("*:") {
        Some(port) => port.parse::<u16>().ok()?,
        None => address.parse::<std::net::SocketAddr>().ok()?.port(),
    };
    (port != 0).then(|| ListenForEvents { address: address.to_owned(), required: true })
}

/// Reads labels separated by commas: `key=value`, or `key` for any value.
fn labels(selector: &str, parameters: &Parameters<'_>) -> Result<Vec<(String, Option<String>)>, ConfigError> {
    let parts = selector.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (key, value) = match part.split_once('=') {
                Some((key, value)) => {
                    (key.trim(), Some(value.strip_prefix('=').unwrap_or(value).trim().to_owned()))
                }
                None => (part, None),
            };
            label_selector::check(
                parameters,
                "kvEventsConfig.podDiscoveryConfig.podLabelSelector",
                key,
                &value,
            )?;
            Ok((key.to_owned(), value))
        })
        .collect()
}
