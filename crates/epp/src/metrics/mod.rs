//! The picker's metrics, under the names of the reference and, where dashboards still use them, also under the former names.

mod buckets;
mod disagg;
mod encoder_cache;
mod eviction;
mod extproc;
mod flow;
mod kv_cache;
mod kv_events;
mod label_value;
mod labels;
mod latency;
mod limits;
mod page_space;
mod per_endpoint;
mod plugins;
mod pool;
mod prefixes;
mod requests;
mod stream;

use std::time::Duration;

use longboat_api::picker_plugins::METRICS_EXTRACTOR;
use longboat_metrics::{Buckets, Decimal, Histograms, metrics};
use longboat_scheduler::{Scheduler, Usage};
use prometheus_client::{
    metrics::{
        counter::Counter,
        family::{Family, MetricConstructor as _},
        gauge::Gauge,
        histogram::Histogram,
    },
    registry::Registry,
};

use self::{
    buckets::{
        INPUT_TOKENS, LATENCY, OUTPUT_TOKENS, PER_TOKEN, PROCESSING, REQUEST_BYTES, RESPONSE_BYTES,
        SCHEDULING, STREAMED_TOKEN,
    },
    label_value::{LabelValues, MAX_FLOWS, MAX_UNSERVED_MODELS},
    labels::{
        AttemptLabels, EndpointLabels, ErrorLabels, ExtractorLabels, InfoLabels, LegacyErrorLabels,
        LegacyRequestLabels, LoadLabels, ModelLabel, Models, OutcomeLabel, PodAttemptLabels, PodLabels,
        PoolLabel, RewriteLabels, SourceLabel, StreamingLabels,
    },
    page_space::{MAX_COUNTER_BYTES, MAX_HISTOGRAM_BYTES, PageSpace},
    per_endpoint::PerEndpoint,
};

pub(crate) use self::{
    disagg::DisaggMetrics,
    encoder_cache::EncoderCacheMetrics,
    eviction::EvictionMetrics,
    extproc::{ExtProcMetrics, OpenStream},
    flow::{FlowMetrics, WaitingGuard},
    kv_cache::KvCacheMetrics,
    kv_events::KvEventMetrics,
    label_value::MAX_VALUE_BYTES,
    labels::RequestLabels,
    latency::{LatencyMetrics, Time},
    plugins::{PluginMetrics, Work},
    prefixes::PrefixMetrics,
    stream::{InterChunkTimer, StreamMetrics},
};

/// How a request ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestSummary {
    pub(crate) duration: Duration,
    pub(crate) first_byte: Option<Duration>,
    pub(crate) response_bytes: usize,
    /// Whether the response is a stream of events.
    pub(crate) stream: bool,
    pub(crate) usage: Option<Usage>,
    /// The HTTP status. `None` if the picker saw no response.
    pub(crate) status: Option<u16>,
    /// Whether the picker saw the end of the response.
    pub(crate) is_complete: bool,
}

/// A histogram under its present and its former name.
struct RenamedHistogram {
    present: Histograms<RequestLabels>,
    former: Histograms<Models>,
}

/// The present and the former name of each such histogram, what it measures, and its buckets.
const RENAMED: [(&str, &str, &str, &[f64]); 7] = [
    (
        "request_duration_seconds",
        "request_duration_seconds",
        "Time from the request to the end of its response",
        LATENCY,
    ),
    ("request_size_bytes", "request_sizes", "Request body size", REQUEST_BYTES),
    ("response_size_bytes", "response_sizes", "Response body size", RESPONSE_BYTES),
    ("request_input_tokens", "input_tokens", "Prompt tokens", INPUT_TOKENS),
    ("request_output_tokens", "output_tokens", "Generated tokens", OUTPUT_TOKENS),
    (
        "request_cached_tokens",
        "prompt_cached_tokens",
        "Prompt tokens found in the model server's cache",
        INPUT_TOKENS,
    ),
    (
        "request_ntpot_seconds",
        "normalized_time_per_output_token_seconds",
        "Duration of a request for each token that it generated",
        PER_TOKEN,
    ),
];

/// All series.
pub(crate) struct PickerMetrics {
    registry: Registry,
    pool: PoolLabel,
    models: LabelValues,
    flows: LabelValues,
    /// The space on the page for the counters and the histograms of requests.
    counters: PageSpace,
    histograms: PageSpace,
    series: PickerSeries,
    durations: RenamedHistogram,
    request_bytes: RenamedHistogram,
    response_bytes: RenamedHistogram,
    input_tokens: RenamedHistogram,
    output_tokens: RenamedHistogram,
    cached_tokens: RenamedHistogram,
    per_token: RenamedHistogram,
    /// The series of prefix producers.
    pub(crate) prefixes: PrefixMetrics,
    /// The names of the producers of loads.
    load_producers: Vec<String>,
    /// The metrics of flow control.
    pub(crate) flow: FlowMetrics,
    limits: limits::LimitMetrics,
    /// The durations of plugins.
    pub(crate) plugins: PluginMetrics,
    /// The stages that requests go through.
    pub(crate) disagg: DisaggMetrics,
    /// The metrics of encoder caches.
    pub(crate) encoder_cache: EncoderCacheMetrics,
    /// The metrics of eviction.
    pub(crate) eviction: EvictionMetrics,
    /// The metrics of predicted latency.
    pub(crate) latency: LatencyMetrics,
    /// The times between the chunks of streams.
    pub(crate) stream: StreamMetrics,
    /// The indexes of precise prefixes, where there are such.
    pub(crate) kv_cache: Option<KvCacheMetrics>,
    /// The ext_proc streams, where they are counted.
    pub(crate) extproc: Option<ExtProcMetrics>,
}

metrics! {
    /// The series of requests, picks and the pool.
    struct PickerSeries {
        // The encoder adds `_total` to counters.
        requests: Family<RequestLabels, Counter> => "llm_d_epp_request", "Requests";
        former_requests: Family<LegacyRequestLabels, Counter> => "inference_objective_request", "Requests";
        errors: Family<ErrorLabels, Counter> => "llm_d_epp_request_error", "Requests that failed";
        former_errors: Family<LegacyErrorLabels, Counter>
            => "inference_objective_request_error", "Requests that failed";
        first_byte: Histograms<StreamingLabels> = Family::new_with_constructor(Buckets(LATENCY))
            => "llm_d_epp_request_ttft_seconds", "Time from the request to the first byte of its response";
        streamed_per_token: Histograms<RequestLabels> = Family::new_with_constructor(Buckets(STREAMED_TOKEN))
            => "llm_d_epp_request_streaming_tpot_seconds",
            "Time for each generated token after the first, for streamed responses";
        processing: Histogram = Buckets(PROCESSING).new_metric()
            => "llm_d_epp_request_processing_duration_seconds",
            "Time from the arrival of a request until it is forwarded to an endpoint";
        responding: Histogram = Buckets(PROCESSING).new_metric()
            => "llm_d_epp_response_processing_duration_seconds",
            "For streams, time in the picker; for other responses, time from the headers to the end";
        running: Family<RequestLabels, Gauge> => "llm_d_epp_request_running", "Requests in flight";
        former_running: Family<ModelLabel, Gauge>
            => "inference_objective_running_requests", "Requests in flight";
        scheduling: Histogram = Buckets(SCHEDULING).new_metric()
            => "llm_d_epp_scheduler_e2e_duration_seconds" | "inference_extension_scheduler_e2e_duration_seconds",
            "Time to pick an endpoint";
        attempts: PerEndpoint<AttemptLabels, Counter> = PerEndpoint::new()
            => "llm_d_epp_scheduler_attempts", "Picks";
        former_attempts: PerEndpoint<PodAttemptLabels, Counter> = PerEndpoint::new()
            => "inference_extension_scheduler_attempts", "Picks";
        rewrites: Family<RewriteLabels, Counter>
            => "llm_d_epp_model_rewrite_decisions" | "inference_extension_model_rewrite_decisions",
            "Requests for which an InferenceModelRewrite named another model";
        token_lookups: Family<OutcomeLabel, Counter>
            => "llm_d_epp_token_lookups", "Requests whose tokens a tokenizer computed";
        poll_errors: Family<SourceLabel, Counter>
            => "llm_d_epp_datalayer_poll_errors" | "llm_d_inference_scheduler_datalayer_poll_errors",
            "Scrapes that failed";
        extract_errors: Family<ExtractorLabels, Counter>
            => "llm_d_epp_datalayer_extract_errors" | "llm_d_inference_scheduler_datalayer_extract_errors",
            "Metrics pages without a metric that every engine must have";
        kv_usage: Family<PoolLabel, Decimal>
            => "llm_d_epp_average_kv_cache_utilization" | "inference_pool_average_kv_cache_utilization",
            "Average KV cache usage";
        queue: Family<PoolLabel, Decimal>
            => "llm_d_epp_average_queue_size" | "inference_pool_average_queue_size", "Average queue length";
        running_average: Family<PoolLabel, Decimal>
            => "llm_d_epp_average_running_requests" | "inference_pool_average_running_requests",
            "Average of running requests";
        kv_deviation: Family<PoolLabel, Decimal>
            => "llm_d_epp_std_dev_kv_cache_utilization", "Standard deviation between endpoints";
        queue_deviation: Family<PoolLabel, Decimal>
            => "llm_d_epp_std_dev_queue_size", "Standard deviation between endpoints";
        running_deviation: Family<PoolLabel, Decimal>
            => "llm_d_epp_std_dev_running_requests", "Standard deviation between endpoints";
        ready: Family<PoolLabel, Gauge>
            => "llm_d_epp_ready_endpoints" | "inference_pool_ready_pods", "Ready endpoints of the pool";
        endpoint_queue: Family<EndpointLabels, Decimal>
            => "llm_d_epp_per_endpoint_queue_size", "Queue length";
        pod_queue: Family<PodLabels, Decimal> => "inference_pool_per_pod_queue_size", "Queue length";
        in_flight_requests: Family<LoadLabels, Gauge> => "llm_d_epp_inflight_requests", "Requests in flight";
        in_flight_tokens: Family<LoadLabels, Gauge>
            => "llm_d_epp_inflight_tokens", "Uncached prompt tokens in flight at each endpoint";
        body_bytes: Gauge
            => "llm_d_epp_body_bytes_in_flight", "Memory for the bodies of requests in flight, in bytes";
        body_limit: Gauge
            => "llm_d_epp_body_bytes_in_flight_limit",
            "Limit of the memory for the bodies of requests in flight, in bytes";
        info: Family<InfoLabels, Gauge> => "llm_d_epp_info" | "inference_extension_info", "Build";
    }
}

impl std::fmt::Debug for PickerMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PickerMetrics").finish_non_exhaustive()
    }
}

impl PickerMetrics {
    /// Registers all series, for a pool of this name and the plugins of this scheduler.
    pub(crate) fn new(pool: &str, scheduler: &Scheduler) -> Self {
        let mut registry = Registry::default();
        let r = &mut registry;
        let series = PickerSeries::register(r);
        series.info.get_or_create(&InfoLabels { commit: "", build_ref: env!("CARGO_PKG_VERSION") }).set(1);
        let [durations, request_bytes, response_bytes, input_tokens, output_tokens, cached_tokens, per_token] =
            RENAMED.map(|(name, former, help, buckets)| {
                let histogram = RenamedHistogram {
                    present: Family::new_with_constructor(Buckets(buckets)),
                    former: Family::new_with_constructor(Buckets(buckets)),
                };
                r.register(format!("llm_d_epp_{name}"), help, histogram.present.clone());
                r.register(format!("inference_objective_{former}"), help, histogram.former.clone());
                histogram
            });
        let kv_cache = scheduler.knows_blocks().then(|| {
            let events = KvEventMetrics::register(r);
            KvCacheMetrics::register(r, events)
        });
        let lookup_times = kv_cache.as_ref().map(|kv_cache| kv_cache.lookup_times.clone());
        let histograms = PageSpace::new(MAX_HISTOGRAM_BYTES);
        let mut load_producers = scheduler.load_producers().to_vec();
        if load_producers.is_empty() {
            load_producers.push("inflight-load-producer".to_owned());
        }
        Self {
            pool: PoolLabel { name: pool.to_owned() },
            models: LabelValues::new(MAX_UNSERVED_MODELS),
            flows: LabelValues::new(MAX_FLOWS),
            counters: PageSpace::new(MAX_COUNTER_BYTES),
            series,
            durations,
            request_bytes,
            response_bytes,
            input_tokens,
            output_tokens,
            cached_tokens,
            per_token,
            prefixes: PrefixMetrics::new(r, scheduler),
            load_producers,
            flow: FlowMetrics::register(r, pool.to_owned(), histograms.clone()),
            limits: limits::LimitMetrics::register(r, pool.to_owned()),
            plugins: PluginMetrics::new(r, scheduler, lookup_times),
            disagg: DisaggMetrics::new(r),
            encoder_cache: EncoderCacheMetrics::register(r),
            eviction: EvictionMetrics::register(r, pool.to_owned()),
            latency: LatencyMetrics::new(r, histograms.clone()),
            stream: StreamMetrics::register(r),
            histograms,
            kv_cache,
            extproc: None,
            registry,
        }
    }

    /// Starts to count ext_proc streams.
    pub(crate) fn count_streams(&mut self) {
        self.extproc = Some(ExtProcMetrics::register(&mut self.registry));
    }

    /// A page lacked a number of queue, running requests or KV cache.
    pub(crate) fn extract_failed(&self) {
        self.series
            .extract_errors
            .get_or_create(&ExtractorLabels {
                source_type: "metrics-data-source",
                extractor_type: METRICS_EXTRACTOR,
            })
            .inc();
    }

    pub(crate) fn poll_failed(&self) {
        self.series.poll_errors.get_or_create(&SourceLabel { source_type: "metrics-data-source" }).inc();
    }
}
