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

// vLLM's buckets.
const REQUEST_LATENCY: Buckets = Buckets(&[
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
    960.0, 1920.0, 7680.0,
]);
const TIME_TO_FIRST_TOKEN: Buckets = Buckets(&[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
    80.0, 160.0, 640.0, 2560.0,
]);
const INTER_TOKEN_LATENCY: Buckets = Buckets(&[
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
]);

/// The reasons whose series vLLM has from the start, so that rates are known from the first request on.
const FINISHED_REASONS: [&str; 5] = ["stop", "length", "abort", "error", "repetition"];

metrics! {
    /// All series of one engine. vLLM serves those in `unlabelled` without the labels of the model and the engine.
    pub struct Metrics(labelled: Registry, unlabelled: Registry, adapters: Family<AdaptersInUse, Decimal>) {
        running: Gauge => "vllm:num_requests_running", "Number of requests in model execution batches";
        waiting: Gauge => "vllm:num_requests_waiting", "Number of requests waiting to be processed";
        cache_usage: Decimal => "vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage";
        cache_config: Family<CacheConfig, Gauge> => "vllm:cache_config_info", "Information of the LLMEngine CacheConfig";
        prefix_queries: Counter
            => "vllm:prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens";
        prefix_hits: Counter
            => "vllm:prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens";
        external_queries: Counter => "vllm:external_prefix_cache_queries",
            "External prefix cache queries from KV connector cross-instance cache sharing, in terms of number of \
             queried tokens";
        external_hits: Counter => "vllm:external_prefix_cache_hits",
            "External prefix cache hits from KV connector cross-instance cache sharing, in terms of number of \
             cached tokens";
        /// Requests that left the batch because the cache was full, and are computed again.
        pub preemptions: Counter
            => "vllm:num_preemptions", "Cumulative number of preemption from the engine";
        prompt_tokens: Counter => "vllm:prompt_tokens", "Number of prefill tokens processed";
        generation_tokens: Counter => "vllm:generation_tokens", "Number of generation tokens processed";
        success: Family<FinishLabels, Counter>
            => "vllm:request_success", "Count of successfully processed requests";
        /// The time before a request joins the batch.
        pub queue_time: Histogram = REQUEST_LATENCY.new_metric() => "vllm:request_queue_time" in Seconds,
            "Histogram of time spent in WAITING phase for request";
        /// The time to the first token.
        pub first_token: Histogram = TIME_TO_FIRST_TOKEN.new_metric() => "vllm:time_to_first_token" in Seconds,
            "Histogram of time to first token in seconds";
        /// The time between two tokens.
        pub between_tokens: Histogram = INTER_TOKEN_LATENCY.new_metric() => "vllm:inter_token_latency" in Seconds,
            "Histogram of inter-token latency in seconds";
        end_to_end: Histogram = REQUEST_LATENCY.new_metric() => "vllm:e2e_request_latency" in Seconds,
            "Histogram of e2e request latency in seconds";
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
        let help = "Running stats on lora requests";
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
