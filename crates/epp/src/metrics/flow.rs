//! The metrics of flow control: waiting requests, their waiting times and their outcomes.

use std::time::{Duration, Instant};

use longboat_metrics::{Buckets, Decimal, Histograms, labels, metrics};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{
        counter::Counter,
        family::{Family, MetricConstructor as _},
        gauge::Gauge,
        histogram::Histogram,
    },
};

use super::{
    buckets::{LATENCY, SCHEDULING},
    label_value::LabelValue,
    labels::{Models, RequestLabels},
    page_space::{PageSpace, SeriesGroup},
};
use longboat_scheduler::flow::{Reading, Stage};

use crate::answer::{Refusal, drop_reason};

labels! {
    struct WaitingLabels {
        fairness_id: LabelValue, priority: i64, inference_pool: String, #[prometheus(flatten)] models: Models,
    }
    struct WaitedLabels {
        fairness_id: LabelValue, priority: i64, outcome: &'static str, inference_pool: String,
        #[prometheus(flatten)] models: Models,
    }
    struct EnqueuedLabels { fairness_id: LabelValue, priority: i64, outcome: &'static str }
    struct OutcomeLabels { outcome: &'static str, priority: i64, inference_pool: String }
    struct DetectorLabels { detector: String, stage: &'static str }
    struct StageLabels { inference_pool: String, stage: &'static str }
}

metrics! {
    /// The series of flow control, under the present and the former names. Clones share the same series.
    #[derive(Debug, Clone)]
    pub(crate) struct FlowMetrics(pool: String, histograms: PageSpace) {
        readings: Family<DetectorLabels, Decimal>
            => "llm_d_epp_flow_control_detector_saturation",
            "Saturation that each of several detectors measures, by stage";
        size: Family<WaitingLabels, Gauge>
            => "llm_d_epp_flow_control_queue_size" | "inference_extension_flow_control_queue_size",
            "Waiting requests";
        bytes: Family<WaitingLabels, Gauge>
            => "llm_d_epp_flow_control_queue_bytes" | "inference_extension_flow_control_queue_bytes",
            "Bytes of waiting requests";
        waited: Histograms<WaitedLabels> = Family::new_with_constructor(Buckets(LATENCY))
            => "llm_d_epp_flow_control_request_queue_duration_seconds"
            | "inference_extension_flow_control_request_queue_duration_seconds",
            "Time that requests wait in the queue";
        enqueued: Histograms<EnqueuedLabels> = Family::new_with_constructor(Buckets(SCHEDULING))
            => "llm_d_epp_flow_control_request_enqueue_duration_seconds"
            | "inference_extension_flow_control_request_enqueue_duration_seconds",
            "Time to put a request into the queue";
        cycles: Histogram = Buckets(SCHEDULING).new_metric()
            => "llm_d_epp_flow_control_dispatch_cycle_duration_seconds"
            | "inference_extension_flow_control_dispatch_cycle_duration_seconds",
            "Duration of one dispatch cycle";
        requests: Family<OutcomeLabels, Counter>
            => "llm_d_epp_flow_control_requests" | "inference_extension_flow_control_requests",
            "Requests by the outcome of their wait";
        saturation: Family<StageLabels, Decimal>
            => "llm_d_epp_flow_control_pool_saturation" | "inference_extension_flow_control_pool_saturation",
            "Saturation of the pool by stage; 1 or more means that it is full";
    }
}

impl FlowMetrics {
    /// Counts a request that comes to the queue.
    pub(crate) fn arrived(&self, labels: &RequestLabels, bytes: u64) -> WaitingGuard {
        let labels = WaitingLabels {
            fairness_id: labels.fairness_id.clone(),
            priority: labels.priority,
            inference_pool: self.pool.clone(),
            models: labels.models.clone(),
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

    /// Sets the saturation of the pool and of its stages, and what each of several detectors measures.
    pub(crate) fn saturated(&self, effective: f64, stages: &[(Stage, f64)], readings: &[Reading<'_>]) {
        // The stages change with the endpoints.
        self.readings.clear();
        self.saturation.clear();
        for reading in readings {
            let labels = DetectorLabels { detector: reading.detector.to_owned(), stage: reading.stage };
            self.readings.get_or_create(&labels).set(reading.saturation);
        }
        let stages = stages.iter().map(|(stage, saturation)| (stage.name(), *saturation));
        for (stage, saturation) in stages.chain([("effective", effective)]) {
            let labels = StageLabels { inference_pool: self.pool.clone(), stage };
            self.saturation.get_or_create(&labels).set(saturation);
        }
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

/// The lines of the two histograms of an outcome. They are longer than others, and count as twice as many.
const WAIT_LINES: usize = 204;

impl WaitingGuard {
    /// Returns the labels of the histograms of this outcome.
    fn of_histograms(&self, outcome: &'static str) -> RequestLabels {
        let WaitingLabels { models, fairness_id, priority, .. } = self.labels.clone();
        let labels = RequestLabels { models, fairness_id, priority };
        self.metrics.histograms.of_served(&labels, SeriesGroup(outcome, WAIT_LINES))
    }

    /// Records that the queue accepted the request, or that the request went on at once.
    pub(crate) fn enqueued(&self, outcome: &'static str) {
        let labels = EnqueuedLabels {
            fairness_id: self.of_histograms(outcome).fairness_id,
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
            Some(drop_reason::SATURATED) => "RejectedCapacity",
            Some(drop_reason::NO_ENDPOINTS) => "RejectedNoEndpoints",
            _ => "RejectedOther",
        };
        self.enqueued(self.outcome);
    }

    /// Records that the request was removed from the queue.
    pub(crate) fn evicted(mut self, refusal: &Refusal) {
        self.outcome = match refusal.reason() {
            Some(drop_reason::TTL_EXPIRED) => "EvictedTTL",
            Some(drop_reason::NO_ENDPOINTS) => "EvictedNoEndpoints",
            _ => "EvictedOther",
        };
    }
}

impl Drop for WaitingGuard {
    fn drop(&mut self) {
        let RequestLabels { models, fairness_id, .. } = self.of_histograms(self.outcome);
        let Self { metrics, labels, bytes, since, outcome } = self;
        metrics.size.get_or_create(labels).dec();
        metrics.bytes.get_or_create(labels).dec_by(*bytes);
        let waited = WaitedLabels {
            fairness_id,
            priority: labels.priority,
            outcome,
            inference_pool: labels.inference_pool.clone(),
            models,
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
