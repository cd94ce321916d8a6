//! vLLM's metrics, with vLLM's names.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longboat_metrics::{Buckets, Decimal, labels, metrics};
use prometheus_client::{
    encoding::text::{encode, encode_registry},
    metrics::{
        counter::Counter,
        family::{Family, MetricConstructor as _},
        gauge::Gauge,
        histogram::Histogram,
    },
    registry::Registry,
};

use crate::{Encodings, Transfers};

labels! {
    struct FinishLabels { finished_reason: &'static str }
    struct CacheConfig { block_size: u64, num_gpu_blocks: u64 }
    struct AdaptersInUse { max_lora: u64, running_lora_adapters: String, waiting_lora_adapters: String }
}

const SECONDS: Buckets =
    Buckets(&[0.001, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 40.96]);

/// The reasons whose series vLLM has from the start, so that rates are known from the first request on.
const FINISHED_REASONS: [&str; 5] = ["stop", "length", "abort", "error", "repetition"];

metrics! {
    /// All series of one engine. vLLM serves those in `unlabelled` without the labels of the model and the engine.
    pub struct Metrics(labelled: Registry, unlabelled: Registry, adapters: Family<AdaptersInUse, Decimal>) {
        running: Gauge => "vllm:num_requests_running", "Requests in the batch";
        waiting: Gauge => "vllm:num_requests_waiting", "Requests waiting for the batch";
        cache_usage: Decimal => "vllm:kv_cache_usage_perc", "Used share of the KV cache, 0 to 1";
        cache_config: Family<CacheConfig, Gauge> => "vllm:cache_config_info", "Size of the KV cache";
        prefix_queries: Counter => "vllm:prefix_cache_queries", "Prompt tokens looked up in the prefix cache";
        prefix_hits: Counter
            => "vllm:prefix_cache_hits", "Prompt tokens found in the prefix cache of this engine";
        external_queries: Counter
            => "vllm:external_prefix_cache_queries", "Prompt tokens looked up in other engines";
        external_hits: Counter
            => "vllm:external_prefix_cache_hits", "Prompt tokens whose cache came from other engines";
        prompt_tokens: Counter => "vllm:prompt_tokens", "Prompt tokens processed";
        generation_tokens: Counter => "vllm:generation_tokens", "Tokens generated";
        success: Family<FinishLabels, Counter> => "vllm:request_success", "Requests that finished, by reason";
        /// The time before a request joins the batch.
        pub queue_time: Histogram = SECONDS.new_metric()
            => "vllm:request_queue_time" in Seconds, "Time before a request joins the batch";
        /// The time to the first token.
        pub first_token: Histogram = SECONDS.new_metric()
            => "vllm:time_to_first_token" in Seconds, "Time to the first token";
        /// The time between two tokens.
        pub between_tokens: Histogram = SECONDS.new_metric()
            => "vllm:inter_token_latency" in Seconds, "Time between two tokens";
        end_to_end: Histogram = SECONDS.new_metric()
            => "vllm:e2e_request_latency" in Seconds, "Time of a whole request";
    }
}

// === impl Metrics ===

impl Metrics {
    /// Creates the series of a model whose cache has this number of blocks, each of this number of tokens.
    pub fn new(model: &str, block_size: usize, blocks: usize) -> Self {
        let mut labelled = Registry::with_labels(
            [("model_name".into(), model.to_owned().into()), ("engine".into(), "0".into())].into_iter(),
        );
        // The registry cannot move into the struct while the metrics are registered in it.
        let metrics =
            Self::register(&mut labelled, Registry::default(), Registry::default(), Family::default());
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let cache = CacheConfig { block_size: count(block_size), num_gpu_blocks: count(blocks) };
        metrics.cache_config.get_or_create(&cache).set(1);
        for finished_reason in FINISHED_REASONS {
            metrics.success.get_or_create(&FinishLabels { finished_reason }).inc_by(0);
        }
        Self { labelled, ..metrics }
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

    /// Counts the tokens of a prompt that was processed.
    pub fn processed(&self, prompt: usize) {
        self.prompt_tokens.inc_by(prompt as u64);
    }

    /// Counts generated tokens. A long answer, and one whose client leaves, counts while it is generated.
    pub fn generated(&self, tokens: usize) {
        self.generation_tokens.inc_by(tokens as u64);
    }

    /// Counts a finished request.
    pub fn finished(&self, reason: &'static str, time: Duration) {
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
        // The adapters are in the labels, so a series of an earlier moment would stay beside the one of now.
        self.adapters.clear();
        self.adapters.get_or_create(&labels).set(since.as_secs_f64());
    }

    /// Adds the series of KV cache transfers between engines.
    pub fn transfers(&mut self) -> Transfers {
        Transfers::register(&mut self.labelled)
    }

    /// Adds the series of encoded items.
    pub fn encodings(&mut self) -> Encodings {
        Encodings::register(&mut self.labelled)
    }

    /// Returns all series in the OpenMetrics text format.
    pub fn page(&self, running: i64, waiting: i64, cache_usage: f64) -> String {
        self.running.set(running);
        self.waiting.set(waiting);
        self.cache_usage.set(cache_usage);
        let mut page = String::with_capacity(8 * 1024);
        // Writing to a String cannot fail.
        let _ = encode_registry(&mut page, &self.unlabelled);
        let _ = encode(&mut page, &self.labelled);
        page
    }
}
