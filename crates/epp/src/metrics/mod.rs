//! The picker's metrics, under the names of the reference and, where dashboards still use them, also under the former names.

mod buckets;
mod disagg;
mod encoder_cache;
mod eviction;
mod extproc;
mod flow;
mod kv_cache;
mod kv_events;
mod labels;
mod latency;
mod limits;
mod per_endpoint;
mod plugins;
mod pool;
mod prefixes;
mod requests;
mod stream;

use std::{
    collections::{BTreeSet, HashSet},
    sync::atomic::AtomicU64,
    time::Duration,
};

use longboat_scheduler::Scheduler;
use parking_lot::Mutex;
use prometheus_client::{
    metrics::{
        counter::Counter,
        family::{Family, MetricConstructor},
        gauge::Gauge,
        histogram::Histogram,
    },
    registry::Registry,
};

use self::{
    buckets::{
        Buckets, Histograms, INPUT_TOKENS, LATENCY, OUTPUT_TOKENS, PER_TOKEN, PROCESSING, REQUEST_BYTES,
        RESPONSE_BYTES, SCHEDULING, STREAMED_TOKEN,
    },
    labels::{
        AttemptLabels, EndpointLabels, ErrorLabels, ExtractorLabels, InfoLabels, LegacyErrorLabels,
        LegacyLabels, LegacyRequestLabels, LoadLabels, ModelLabel, OutcomeLabel, PodAttemptLabels, PodLabels,
        PoolLabel, RewriteLabels, SourceLabel, StreamingLabels,
    },
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
    labels::RequestLabels,
    latency::{LatencyMetrics, Time},
    plugins::{PluginMetrics, Work},
    prefixes::PrefixMetrics,
    stream::{InterChunkTimer, StreamMetrics},
};

type Decimal = Gauge<f64, AtomicU64>;

/// The most distinct values of a label that clients choose. Further values share one series.
const MAX_VALUES: usize = 1000;

/// The longest value of such a label. Longer values count as [`OTHER`].
const MAX_VALUE: usize = 256;
/// The most distinct combinations of such labels. Each combination has a dozen histograms, which need more memory than a value.
const MAX_COMBINATIONS: usize = 1000;
/// The label value for everything beyond these limits.
const OTHER: &str = "other";

/// The values of a label that clients choose.
#[derive(Debug, Default)]
struct LabelValues(Mutex<BTreeSet<String>>);

impl LabelValues {
    fn label(&self, value: &str) -> String {
        if value.len() > MAX_VALUE {
            return OTHER.to_owned();
        }
        let mut known = self.0.lock();
        if !known.contains(value) {
            if known.len() >= MAX_VALUES {
                return OTHER.to_owned();
            }
            known.insert(value.to_owned());
        }
        value.to_owned()
    }
}

/// Token counts of a model server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cached: u64,
}

/// How a request ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestSummary {
    pub(crate) duration: Duration,
    pub(crate) first_byte: Option<Duration>,
    pub(crate) response_bytes: usize,
    /// Whether the response is a stream of events.
    pub(crate) stream: bool,
    pub(crate) usage: Option<Usage>,
}

/// A metric under its present and its former name.
struct RenamedMetric<L, M, C = fn() -> M> {
    present: Family<L, M, C>,
    former: Family<LegacyLabels, M, C>,
}

/// All series.
pub(crate) struct PickerMetrics {
    registry: Registry,
    pool: PoolLabel,
    models: LabelValues,
    flows: LabelValues,
    /// The label combinations of requests so far.
    combinations: Mutex<HashSet<RequestLabels>>,
    requests: Family<RequestLabels, Counter>,
    former_requests: Family<LegacyRequestLabels, Counter>,
    errors: Family<ErrorLabels, Counter>,
    former_errors: Family<LegacyErrorLabels, Counter>,
    durations: RenamedMetric<RequestLabels, Histogram, Buckets>,
    request_bytes: RenamedMetric<RequestLabels, Histogram, Buckets>,
    response_bytes: RenamedMetric<RequestLabels, Histogram, Buckets>,
    input_tokens: RenamedMetric<RequestLabels, Histogram, Buckets>,
    output_tokens: RenamedMetric<RequestLabels, Histogram, Buckets>,
    cached_tokens: RenamedMetric<RequestLabels, Histogram, Buckets>,
    first_byte: Histograms<StreamingLabels>,
    per_token: RenamedMetric<RequestLabels, Histogram, Buckets>,
    streamed_per_token: Histograms<RequestLabels>,
    processing: Histogram,
    responding: Histogram,
    running: Family<RequestLabels, Gauge>,
    former_running: Family<ModelLabel, Gauge>,
    scheduling: Histogram,
    attempts: PerEndpoint<AttemptLabels, Counter>,
    former_attempts: PerEndpoint<PodAttemptLabels, Counter>,
    rewrites: Family<RewriteLabels, Counter>,
    token_lookups: Family<OutcomeLabel, Counter>,
    poll_errors: Family<SourceLabel, Counter>,
    extract_errors: Family<ExtractorLabels, Counter>,
    kv_usage: Family<PoolLabel, Decimal>,
    queue: Family<PoolLabel, Decimal>,
    running_average: Family<PoolLabel, Decimal>,
    deviations: [Family<PoolLabel, Decimal>; 3],
    ready: Family<PoolLabel, Gauge>,
    endpoint_queue: Family<EndpointLabels, Decimal>,
    pod_queue: Family<PodLabels, Decimal>,
    /// The series of prefix producers.
    pub(crate) prefixes: PrefixMetrics,
    /// The names of the producers of loads.
    load_producers: Vec<String>,
    in_flight_requests: Family<LoadLabels, Gauge>,
    in_flight_tokens: Family<LoadLabels, Gauge>,
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
    body_bytes: Gauge,
    body_limit: Gauge,
}

impl std::fmt::Debug for PickerMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PickerMetrics").finish_non_exhaustive()
    }
}

const PRESENT: &str = "llm_d_epp_";

fn histograms(
    registry: &mut Registry,
    name: &str,
    former: &str,
    help: &str,
    buckets: &'static [f64],
) -> RenamedMetric<RequestLabels, Histogram, Buckets> {
    let twin = RenamedMetric {
        present: Family::new_with_constructor(Buckets(buckets)),
        former: Family::new_with_constructor(Buckets(buckets)),
    };
    registry.register(format!("{PRESENT}{name}"), help, twin.present.clone());
    registry.register(format!("inference_objective_{former}"), help, twin.former.clone());
    twin
}

fn pool_gauge<M: Clone>(registry: &mut Registry, name: &str, former: &str, help: &str) -> Family<PoolLabel, M>
where
    Family<PoolLabel, M>: prometheus_client::registry::Metric + Default,
{
    let family = Family::<PoolLabel, M>::default();
    registry.register(format!("{PRESENT}{name}"), help, family.clone());
    registry.register(format!("inference_pool_{former}"), help, family.clone());
    family
}

impl PickerMetrics {
    /// Registers all series, for a pool of this name and the plugins of this scheduler.
    pub(crate) fn new(pool: &str, scheduler: &Scheduler) -> Self {
        let mut registry = Registry::default();
        let r = &mut registry;
        let (requests, former_requests) = (Family::default(), Family::default());
        // The encoder adds `_total` to counters.
        r.register("llm_d_epp_request", "Requests", requests.clone());
        r.register("inference_objective_request", "Requests", former_requests.clone());
        let errors = Family::default();
        let former_errors = Family::default();
        r.register("llm_d_epp_request_error", "Requests that failed", errors.clone());
        r.register("inference_objective_request_error", "Requests that failed", former_errors.clone());
        let durations = histograms(
            r,
            "request_duration_seconds",
            "request_duration_seconds",
            "Time from the request to the end of its response",
            LATENCY,
        );
        let request_bytes =
            histograms(r, "request_size_bytes", "request_sizes", "Request body size", REQUEST_BYTES);
        let response_bytes =
            histograms(r, "response_size_bytes", "response_sizes", "Response body size", RESPONSE_BYTES);
        let input_tokens =
            histograms(r, "request_input_tokens", "input_tokens", "Prompt tokens", INPUT_TOKENS);
        let output_tokens =
            histograms(r, "request_output_tokens", "output_tokens", "Generated tokens", OUTPUT_TOKENS);
        let cached_tokens = histograms(
            r,
            "request_cached_tokens",
            "prompt_cached_tokens",
            "Prompt tokens found in the model server's cache",
            INPUT_TOKENS,
        );
        let first_byte = Family::new_with_constructor(Buckets(LATENCY));
        r.register(
            "llm_d_epp_request_ttft_seconds",
            "Time from the request to the first byte of its response",
            first_byte.clone(),
        );
        let per_token = histograms(
            r,
            "request_ntpot_seconds",
            "normalized_time_per_output_token_seconds",
            "Duration of a request for each token that it generated",
            PER_TOKEN,
        );
        let streamed_per_token = Family::new_with_constructor(Buckets(STREAMED_TOKEN));
        r.register(
            "llm_d_epp_request_streaming_tpot_seconds",
            "Time for each generated token after the first, for streamed responses",
            streamed_per_token.clone(),
        );
        let processing = Buckets(PROCESSING).new_metric();
        r.register(
            "llm_d_epp_request_processing_duration_seconds",
            "Time from the arrival of a request until it is forwarded to an endpoint",
            processing.clone(),
        );
        let responding = Buckets(PROCESSING).new_metric();
        r.register(
            "llm_d_epp_response_processing_duration_seconds",
            "For streams, time in the picker; for other responses, time from the headers to the end",
            responding.clone(),
        );
        let running = Family::default();
        let former_running = Family::default();
        r.register("llm_d_epp_request_running", "Requests in flight", running.clone());
        r.register("inference_objective_running_requests", "Requests in flight", former_running.clone());
        let scheduling = Buckets(SCHEDULING).new_metric();
        for prefix in [PRESENT, "inference_extension_"] {
            r.register(
                format!("{prefix}scheduler_e2e_duration_seconds"),
                "Time to pick an endpoint",
                scheduling.clone(),
            );
        }
        let (attempts, former_attempts) = (PerEndpoint::new(), PerEndpoint::new());
        r.register("llm_d_epp_scheduler_attempts", "Picks", attempts.family());
        r.register("inference_extension_scheduler_attempts", "Picks", former_attempts.family());
        let rewrites = Family::default();
        for prefix in [PRESENT, "inference_extension_"] {
            r.register(
                format!("{prefix}model_rewrite_decisions"),
                "Requests for which an InferenceModelRewrite named another model",
                rewrites.clone(),
            );
        }
        let token_lookups = Family::default();
        r.register(
            "llm_d_epp_token_lookups",
            "Requests whose tokens a tokenizer computed",
            token_lookups.clone(),
        );
        let poll_errors = Family::default();
        for prefix in [PRESENT, "llm_d_inference_scheduler_"] {
            r.register(format!("{prefix}datalayer_poll_errors"), "Scrapes that failed", poll_errors.clone());
        }
        let extract_errors = Family::default();
        for prefix in [PRESENT, "llm_d_inference_scheduler_"] {
            r.register(
                format!("{prefix}datalayer_extract_errors"),
                "Metrics pages without a metric that every engine must have",
                extract_errors.clone(),
            );
        }
        let kv_usage = pool_gauge(
            r,
            "average_kv_cache_utilization",
            "average_kv_cache_utilization",
            "Average KV cache usage",
        );
        let queue = pool_gauge(r, "average_queue_size", "average_queue_size", "Average queue length");
        let running_average = pool_gauge(
            r,
            "average_running_requests",
            "average_running_requests",
            "Average of running requests",
        );
        let deviations = ["kv_cache_utilization", "queue_size", "running_requests"].map(|what| {
            let family = Family::<PoolLabel, Decimal>::default();
            r.register(
                format!("{PRESENT}std_dev_{what}"),
                "Standard deviation between endpoints",
                family.clone(),
            );
            family
        });
        let ready = pool_gauge(r, "ready_endpoints", "ready_pods", "Ready endpoints of the pool");
        let endpoint_queue = Family::default();
        let pod_queue = Family::default();
        r.register("llm_d_epp_per_endpoint_queue_size", "Queue length", endpoint_queue.clone());
        r.register("inference_pool_per_pod_queue_size", "Queue length", pod_queue.clone());
        let prefixes = PrefixMetrics::new(r, scheduler);
        let (in_flight_requests, in_flight_tokens) = (Family::default(), Family::default());
        r.register("llm_d_epp_inflight_requests", "Requests in flight", in_flight_requests.clone());
        r.register(
            "llm_d_epp_inflight_tokens",
            "Uncached prompt tokens in flight at each endpoint",
            in_flight_tokens.clone(),
        );
        let flow = FlowMetrics::new(r, pool);
        let limits = limits::LimitMetrics::new(r, pool);
        let kv_cache = scheduler.knows_blocks().then(|| KvCacheMetrics::new(r));
        let plugins =
            PluginMetrics::new(r, scheduler, kv_cache.as_ref().map(|kv_cache| kv_cache.lookup_times.clone()));
        let mut load_producers = scheduler.load_producers().to_vec();
        if load_producers.is_empty() {
            load_producers.push("inflight-load-producer".to_owned());
        }
        let disagg = DisaggMetrics::new(r);
        let encoder_cache = EncoderCacheMetrics::new(r);
        let eviction = EvictionMetrics::new(r, pool);
        let latency = LatencyMetrics::new(r);
        let stream = StreamMetrics::new(r);
        let (body_bytes, body_limit) = (Gauge::default(), Gauge::default());
        r.register(
            "llm_d_epp_body_bytes_in_flight",
            "Memory for the bodies of requests in flight, in bytes",
            body_bytes.clone(),
        );
        r.register(
            "llm_d_epp_body_bytes_in_flight_limit",
            "Limit of the memory for the bodies of requests in flight, in bytes",
            body_limit.clone(),
        );
        let info = Family::<InfoLabels, Gauge>::default();
        info.get_or_create(&InfoLabels { commit: "", build_ref: env!("CARGO_PKG_VERSION") }).set(1);
        for prefix in [PRESENT, "inference_extension_"] {
            r.register(format!("{prefix}info"), "Build", info.clone());
        }
        Self {
            registry,
            pool: PoolLabel { name: pool.to_owned() },
            models: LabelValues::default(),
            flows: LabelValues::default(),
            combinations: Mutex::default(),
            requests,
            former_requests,
            errors,
            former_errors,
            durations,
            request_bytes,
            response_bytes,
            input_tokens,
            output_tokens,
            cached_tokens,
            first_byte,
            per_token,
            streamed_per_token,
            processing,
            responding,
            running,
            former_running,
            scheduling,
            attempts,
            former_attempts,
            rewrites,
            token_lookups,
            poll_errors,
            extract_errors,
            kv_usage,
            queue,
            running_average,
            deviations,
            ready,
            endpoint_queue,
            pod_queue,
            prefixes,
            load_producers,
            in_flight_requests,
            in_flight_tokens,
            flow,
            limits,
            plugins,
            disagg,
            encoder_cache,
            eviction,
            latency,
            stream,
            kv_cache,
            extproc: None,
            body_bytes,
            body_limit,
        }
    }

    /// Starts to count ext_proc streams.
    pub(crate) fn count_streams(&mut self) {
        self.extproc = Some(ExtProcMetrics::new(&mut self.registry));
    }

    /// A page lacked a number of queue, running requests or KV cache.
    pub(crate) fn extract_failed(&self) {
        self.extract_errors
            .get_or_create(&ExtractorLabels {
                source_type: "metrics-data-source",
                extractor_type: "core-metrics-extractor",
            })
            .inc();
    }

    pub(crate) fn poll_failed(&self) {
        self.poll_errors.get_or_create(&SourceLabel { source_type: "metrics-data-source" }).inc();
    }
}
