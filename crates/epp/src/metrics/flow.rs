//! The metrics of flow control: waiting requests, their waiting times and their outcomes.

use std::{
    sync::atomic::AtomicU64,
    time::{Duration, Instant},
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::{Family, MetricConstructor as _},
        gauge::Gauge,
        histogram::Histogram,
    },
    registry::Registry,
};

use super::{
    buckets::{Buckets, LATENCY, SCHEDULING},
    labels::RequestLabels,
};
use longboat_scheduler::flow::Reading;

use crate::answer::Refusal;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WaitingLabels {
    fairness_id: String,
    priority: i64,
    inference_pool: String,
    model_name: String,
    target_model_name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WaitedLabels {
    fairness_id: String,
    priority: i64,
    outcome: &'static str,
    inference_pool: String,
    model_name: String,
    target_model_name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EnqueuedLabels {
    fairness_id: String,
    priority: i64,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: &'static str,
    priority: i64,
    inference_pool: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DetectorLabels {
    detector: String,
    stage: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StageLabels {
    inference_pool: String,
    stage: &'static str,
}

/// The series of flow control. Clones share the same series.
#[derive(Debug, Clone)]
pub(crate) struct FlowMetrics {
    pool: String,
    size: Family<WaitingLabels, Gauge>,
    bytes: Family<WaitingLabels, Gauge>,
    waited: Family<WaitedLabels, Histogram, Buckets>,
    enqueued: Family<EnqueuedLabels, Histogram, Buckets>,
    cycles: Histogram,
    requests: Family<OutcomeLabels, Counter>,
    saturation: Family<StageLabels, Gauge<f64, AtomicU64>>,
    readings: Family<DetectorLabels, Gauge<f64, AtomicU64>>,
}

impl FlowMetrics {
    /// Registers the series under the present and the former names.
    pub(super) fn new(registry: &mut Registry, pool: &str) -> Self {
        let metrics = Self {
            pool: pool.to_owned(),
            size: Family::default(),
            bytes: Family::default(),
            waited: Family::new_with_constructor(Buckets(LATENCY)),
            enqueued: Family::new_with_constructor(Buckets(SCHEDULING)),
            cycles: Buckets(SCHEDULING).new_metric(),
            requests: Family::default(),
            saturation: Family::default(),
            readings: Family::default(),
        };
        let help = "Saturation that each of several detectors measures, by stage";
        registry.register("llm_d_epp_flow_control_detector_saturation", help, metrics.readings.clone());
        for prefix in ["llm_d_epp_", "inference_extension_"] {
            let name = |name: &str| format!("{prefix}flow_control_{name}");
            registry.register(name("queue_size"), "Waiting requests", metrics.size.clone());
            registry.register(name("queue_bytes"), "Bytes of waiting requests", metrics.bytes.clone());
            let help = "Time that requests wait in the queue";
            registry.register(name("request_queue_duration_seconds"), help, metrics.waited.clone());
            let help = "Time to put a request into the queue";
            registry.register(name("request_enqueue_duration_seconds"), help, metrics.enqueued.clone());
            let help = "Duration of one dispatch cycle";
            registry.register(name("dispatch_cycle_duration_seconds"), help, metrics.cycles.clone());
            registry.register(
                name("requests"),
                "Requests by the outcome of their wait",
                metrics.requests.clone(),
            );
            let help = "Saturation of the pool; 1 or more means that it is full";
            registry.register(name("pool_saturation"), help, metrics.saturation.clone());
        }
        metrics
    }

    /// Counts a request that comes to the queue.
    pub(crate) fn arrived(&self, labels: &RequestLabels, bytes: u64) -> WaitingGuard {
        let labels = WaitingLabels {
            fairness_id: labels.fairness_id.clone(),
            priority: labels.priority,
            inference_pool: self.pool.clone(),
            model_name: labels.model_name.clone(),
            target_model_name: labels.target_model_name.clone(),
        };
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.size.get_or_create(&labels).inc();
        self.bytes.get_or_create(&labels).inc_by(bytes);
        WaitingGuard {
            metrics: self.clone(),
            labels,
            bytes,
            since: Instant::now(),
            outcome: "EvictedContextCancelled",
        }
    }

    /// Measures one turn of the dispatcher.
    pub(crate) fn cycle(&self, took: Duration) {
        self.cycles.observe(took.as_secs_f64());
    }

    /// Sets the saturation of the pool, and what each of several detectors measures.
    pub(crate) fn saturated(&self, saturation: f64, readings: &[Reading<'_>]) {
        // The stages change with the endpoints.
        self.readings.clear();
        for reading in readings {
            let labels = DetectorLabels { detector: reading.detector.to_owned(), stage: reading.stage };
            self.readings.get_or_create(&labels).set(reading.saturation);
        }
        let labels = StageLabels { inference_pool: self.pool.clone(), stage: "effective" };
        self.saturation.get_or_create(&labels).set(saturation);
    }
}

/// Counts a request as waiting until this is dropped. The default outcome is that the client has left.
#[derive(Debug)]
pub(crate) struct WaitingGuard {
    metrics: FlowMetrics,
    labels: WaitingLabels,
    bytes: i64,
    since: Instant,
    outcome: &'static str,
}

impl WaitingGuard {
    /// Records that the queue accepted the request, or that the request went on at once.
    pub(crate) fn enqueued(&self, outcome: &'static str) {
        let labels = EnqueuedLabels {
            fairness_id: self.labels.fairness_id.clone(),
            priority: self.labels.priority,
            outcome,
        };
        self.metrics.enqueued.get_or_create(&labels).observe(self.since.elapsed().as_secs_f64());
    }

    /// Records that the request goes on.
    pub(crate) fn dispatched(mut self) {
        self.outcome = "Dispatched";
    }

    /// Records that the queue refused the request.
    pub(crate) fn rejected(mut self, refusal: &Refusal) {
        self.outcome = match refusal.reason() {
            Some("rejected-saturated") => "RejectedCapacity",
            Some("rejected-no-endpoints") => "RejectedNoEndpoints",
            _ => "RejectedOther",
        };
        self.enqueued(self.outcome);
    }

    /// Records that the request was removed from the queue.
    pub(crate) fn evicted(mut self, refusal: &Refusal) {
        self.outcome = match refusal.reason() {
            Some("rejected-ttl-expired") => "EvictedTTL",
            Some("rejected-no-endpoints") => "EvictedNoEndpoints",
            _ => "EvictedOther",
        };
    }
}

impl Drop for WaitingGuard {
    fn drop(&mut self) {
        let Self { metrics, labels, bytes, since, outcome } = self;
        metrics.size.get_or_create(labels).dec();
        metrics.bytes.get_or_create(labels).dec_by(*bytes);
        let waited = WaitedLabels {
            fairness_id: labels.fairness_id.clone(),
            priority: labels.priority,
            outcome,
            inference_pool: labels.inference_pool.clone(),
            model_name: labels.model_name.clone(),
            target_model_name: labels.target_model_name.clone(),
        };
        metrics.waited.get_or_create(&waited).observe(since.elapsed().as_secs_f64());
        let ended = OutcomeLabels {
            outcome,
            priority: labels.priority,
            inference_pool: labels.inference_pool.clone(),
        };
        metrics.requests.get_or_create(&ended).inc();
    }
}
