//! vLLM's metrics, with vLLM's names.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::{
    encoding::{
        EncodeLabelSet,
        text::{encode, encode_registry},
    },
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Registry, Unit},
};

use crate::{Encodings, Transfers};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FinishLabels {
    finished_reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CacheConfig {
    block_size: u64,
    num_gpu_blocks: u64,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AdaptersInUse {
    max_lora: u64,
    running_lora_adapters: String,
    waiting_lora_adapters: String,
}

/// All series of one engine.
pub struct Metrics {
    registry: Registry,
    /// Series that vLLM serves without the labels of the model and the engine.
    unlabelled: Registry,
    running: Gauge,
    waiting: Gauge,
    cache_usage: Gauge<f64, std::sync::atomic::AtomicU64>,
    prefix_queries: Counter,
    prefix_hits: Counter,
    external_queries: Counter,
    external_hits: Counter,
    prompt_tokens: Counter,
    generation_tokens: Counter,
    success: Family<FinishLabels, Counter>,
    adapters: Family<AdaptersInUse, Gauge<f64, std::sync::atomic::AtomicU64>>,
    /// The time before a request joins the batch.
    pub queue_time: Histogram,
    /// The time to the first token.
    pub first_token: Histogram,
    /// The time between two tokens.
    pub between_tokens: Histogram,
    end_to_end: Histogram,
}

// === impl Metrics ===

impl Metrics {
    /// Creates the series of a model whose cache has this number of blocks, each of this number of tokens.
    pub fn new(model: &str, block_size: usize, blocks: usize) -> Self {
        let seconds = || {
            Histogram::new([
                0.001, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 40.96,
            ])
        };
        let mut registry = Registry::with_labels(
            [("model_name".into(), model.to_owned().into()), ("engine".into(), "0".into())].into_iter(),
        );
        let metrics = Self {
            running: Gauge::default(),
            waiting: Gauge::default(),
            cache_usage: Gauge::default(),
            prefix_queries: Counter::default(),
            prefix_hits: Counter::default(),
            external_queries: Counter::default(),
            external_hits: Counter::default(),
            prompt_tokens: Counter::default(),
            generation_tokens: Counter::default(),
            success: Family::default(),
            adapters: Family::default(),
            queue_time: seconds(),
            first_token: seconds(),
            between_tokens: seconds(),
            end_to_end: seconds(),
            registry: Registry::default(),
            unlabelled: Registry::default(),
        };
        let cache_config = Family::<CacheConfig, Gauge>::default();
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        cache_config
            .get_or_create(&CacheConfig { block_size: count(block_size), num_gpu_blocks: count(blocks) })
            .set(1);
        registry.register("vllm:num_requests_running", "Requests in the batch", metrics.running.clone());
        registry.register(
            "vllm:num_requests_waiting",
            "Requests waiting for the batch",
            metrics.waiting.clone(),
        );
        registry.register(
            "vllm:kv_cache_usage_perc",
            "Used share of the KV cache, 0 to 1",
            metrics.cache_usage.clone(),
        );
        registry.register("vllm:cache_config_info", "Size of the KV cache", cache_config);
        registry.register(
            "vllm:prefix_cache_queries",
            "Prompt tokens looked up in the prefix cache",
            metrics.prefix_queries.clone(),
        );
        registry.register(
            "vllm:prefix_cache_hits",
            "Prompt tokens found in the prefix cache of this engine",
            metrics.prefix_hits.clone(),
        );
        registry.register(
            "vllm:external_prefix_cache_queries",
            "Prompt tokens looked up in other engines",
            metrics.external_queries.clone(),
        );
        registry.register(
            "vllm:external_prefix_cache_hits",
            "Prompt tokens whose cache came from other engines",
            metrics.external_hits.clone(),
        );
        registry.register("vllm:prompt_tokens", "Prompt tokens processed", metrics.prompt_tokens.clone());
        registry.register("vllm:generation_tokens", "Tokens generated", metrics.generation_tokens.clone());
        registry.register(
            "vllm:request_success",
            "Requests that finished, by reason",
            metrics.success.clone(),
        );
        for (name, help, histogram) in [
            ("vllm:request_queue_time", "Time before a request joins the batch", &metrics.queue_time),
            ("vllm:time_to_first_token", "Time to the first token", &metrics.first_token),
            ("vllm:inter_token_latency", "Time between two tokens", &metrics.between_tokens),
            ("vllm:e2e_request_latency", "Time of a whole request", &metrics.end_to_end),
        ] {
            registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
        }
        Self { registry, ..metrics }
    }

    /// Counts prompt tokens that were looked up in the prefix cache, and those that were found.
    pub fn prefix(&self, queried: usize, hit: usize) {
        self.prefix_queries.inc_by(queried as u64);
        self.prefix_hits.inc_by(hit as u64);
    }

    /// Counts prompt tokens that were requested from another engine, and those whose cache came from there.
    pub fn external(&self, queried: usize, hit: usize) {
        self.external_queries.inc_by(queried as u64);
        self.external_hits.inc_by(hit as u64);
    }

    /// Counts a finished request.
    pub fn finished(&self, prompt: usize, generated: usize, reason: &'static str, time: Duration) {
        self.prompt_tokens.inc_by(prompt as u64);
        self.generation_tokens.inc_by(generated as u64);
        self.success.get_or_create(&FinishLabels { finished_reason: reason }).inc();
        self.end_to_end.observe(time.as_secs_f64());
    }

    /// Adds the series of adapters in use.
    #[must_use]
    pub fn with_adapters(mut self) -> Self {
        let help = "LoRA adapters of running and of waiting requests, in labels; the value is the time";
        self.unlabelled.register("vllm:lora_requests_info", help, self.adapters.clone());
        self
    }

    /// Sets the adapters that run and that wait, as comma-separated names, and how many may run.
    pub fn adapters(&self, most: usize, running: String, waiting: String) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let max_lora = u64::try_from(most).unwrap_or(u64::MAX);
        let labels =
            AdaptersInUse { max_lora, running_lora_adapters: running, waiting_lora_adapters: waiting };
        self.adapters.clear();
        self.adapters.get_or_create(&labels).set(since.as_secs_f64());
    }

    /// Adds the series of KV cache transfers between engines.
    pub fn transfers(&mut self) -> Transfers {
        Transfers::new(&mut self.registry)
    }

    /// Adds the series of encoded items.
    pub fn encodings(&mut self) -> Encodings {
        Encodings::new(&mut self.registry)
    }

    /// Returns all series in the OpenMetrics text format.
    pub fn page(&self, running: i64, waiting: i64, cache_usage: f64) -> String {
        self.running.set(running);
        self.waiting.set(waiting);
        self.cache_usage.set(cache_usage);
        let mut page = String::with_capacity(8 * 1024);
        // Writing to a String cannot fail.
        let _ = encode_registry(&mut page, &self.unlabelled);
        let _ = encode(&mut page, &self.registry);
        page
    }
}
