//! The controller's metrics. They have the names of controller-runtime and client-go where those exist, so that dashboards
//! and alerts for KServe's manager keep working, and `longboat_…` otherwise.
//!
//! Counting an event is a few atomic additions. Gauges of queues and caches are read at scrape time. Labels take no values
//! from users, except namespaces and names of services: their number is bounded, and they go when the service is deleted.

mod page;
mod process;
mod request;
mod serve;
mod settings;

use std::time::{Duration, Instant};

use longboat_api::names::CONTROLLER_LEASE;
use longboat_metrics::{Buckets, Histograms, labels, metrics};
use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};

pub(crate) use request::ApiRequest;
pub(crate) use serve::Monitoring;
pub use settings::MetricsSettings;

use crate::{error::ReconcileError, queue::QueueStats};

/// Bucket bounds of controller-runtime's histogram of reconcile times, in seconds.
const RECONCILE_BUCKETS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25,
    1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0,
    50.0, 60.0,
];
/// Prometheus' default bucket bounds, in seconds.
const LATENCY_BUCKETS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Bucket bounds of a phase, which may take microseconds, in seconds.
const PHASE_BUCKETS: &[f64] =
    &[0.000_01, 0.000_05, 0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0];
/// Bucket bounds of client-go's queues: powers of ten from 10 ns.
const QUEUE_BUCKETS: &[f64] = &[1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1000.0];

labels! {
    struct ControllerLabel { controller: &'static str }
    struct ResultLabels { controller: &'static str, result: &'static str }
    struct QueueLabels { name: &'static str, controller: &'static str }
    struct WebhookLabel { webhook: String }
    struct WebhookCodeLabels { webhook: String, code: u16 }
    struct RequestLabels { code: String, host: String, method: String }
    struct WriteLabels { resource: String, verb: &'static str }
    struct PhaseLabel { phase: &'static str }
    struct NameLabel { name: &'static str }
    struct BuildLabels { version: &'static str }
}

/// A worker that takes keys from a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Worker {
    Services,
    Configs,
}

/// A phase of a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Observe,
    Compose,
    Plan,
    Apply,
    Report,
}

metrics! {
    /// All metrics. Clones share one state.
    #[derive(Clone, Debug)]
    pub(crate) struct Metrics {
        // The encoder adds `_total` to counters.
        reconciles: Family<ResultLabels, Counter> => "controller_runtime_reconcile", "Reconciles by result";
        errors: Family<ControllerLabel, Counter>
            => "controller_runtime_reconcile_errors", "Reconciles that failed";
        times: Histograms<ControllerLabel> = Family::new_with_constructor(Buckets(RECONCILE_BUCKETS))
            => "controller_runtime_reconcile_time_seconds", "Duration of reconciles";
        active: Family<ControllerLabel, Gauge> => "controller_runtime_active_workers", "Running reconciles";
        most: Family<ControllerLabel, Gauge>
            => "controller_runtime_max_concurrent_reconciles", "Maximum number of concurrent reconciles";
        adds: Family<QueueLabels, Counter> => "workqueue_adds", "Objects that were added to the queue";
        retries: Family<QueueLabels, Counter>
            => "workqueue_retries", "Objects that were added again after a failure";
        waited: Histograms<QueueLabels> = Family::new_with_constructor(Buckets(QUEUE_BUCKETS))
            => "workqueue_queue_duration_seconds", "Time that objects waited in the queue";
        worked: Histograms<QueueLabels> = Family::new_with_constructor(Buckets(QUEUE_BUCKETS))
            => "workqueue_work_duration_seconds", "Time to process an object from the queue";
        webhook_requests: Family<WebhookCodeLabels, Counter>
            => "controller_runtime_webhook_requests", "Requests to webhooks by status code";
        webhook_times: Histograms<WebhookLabel> = Family::new_with_constructor(Buckets(LATENCY_BUCKETS))
            => "controller_runtime_webhook_latency_seconds", "Duration of requests to webhooks";
        webhook_open: Family<WebhookLabel, Gauge>
            => "controller_runtime_webhook_requests_in_flight", "Running requests to webhooks";
        requests: Family<RequestLabels, Counter> => "rest_client_requests", "Requests to the API server";
        writes: Family<WriteLabels, Counter>
            => "longboat_writes", "Writes to the API server, by resource and verb";
        phases: Histograms<PhaseLabel> = Family::new_with_constructor(Buckets(PHASE_BUCKETS))
            => "longboat_reconcile_phase_seconds", "Duration of each phase of the reconciles of services";
        leads: Family<NameLabel, Gauge>
            => "leader_election_master_status", "1 if this replica is the leader and reconciles";
    }
}

/// Measures the consecutive phases of one reconcile.
#[derive(Debug)]
pub(crate) struct Phases<'a> {
    metrics: &'a Metrics,
    since: Instant,
}

/// A running request to a webhook. API servers give up on a request by closing its connection, and then it ends without an answer.
#[derive(Debug)]
pub(crate) struct WebhookRequest<'a> {
    metrics: &'a Metrics,
    began: Instant,
    label: WebhookLabel,
}

// === impl Worker ===

impl Worker {
    const ALL: [Self; 2] = [Self::Services, Self::Configs];

    /// The name of KServe's controller, which is used in labels of metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Services => "llminferenceservice",
            Self::Configs => "llminferenceserviceconfig",
        }
    }

    const fn label(self) -> ControllerLabel {
        ControllerLabel { controller: self.name() }
    }

    const fn queue(self) -> QueueLabels {
        QueueLabels { name: self.name(), controller: self.name() }
    }
}

// === impl Phase ===

impl Phase {
    const ALL: [Self; 5] = [Self::Observe, Self::Compose, Self::Plan, Self::Apply, Self::Report];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Compose => "compose",
            Self::Plan => "plan",
            Self::Apply => "apply",
            Self::Report => "report",
        }
    }
}

// === impl Metrics ===

impl Metrics {
    /// New metrics, all at zero.
    pub(crate) fn new() -> Self {
        let metrics = Self::create();
        // A counter starts at zero instead of being absent, so that `rate()` sees its first increase.
        for worker in Worker::ALL {
            for result in ["success", "error", "requeue", "requeue_after"] {
                drop(metrics.reconciles.get_or_create(&ResultLabels { controller: worker.name(), result }));
            }
            drop(metrics.errors.get_or_create(&worker.label()));
            drop(metrics.times.get_or_create(&worker.label()));
            drop(metrics.active.get_or_create(&worker.label()));
            drop(metrics.most.get_or_create(&worker.label()));
        }
        for phase in Phase::ALL {
            drop(metrics.phases.get_or_create(&PhaseLabel { phase: phase.name() }));
        }
        metrics.set_leading(false);
        metrics
    }

    /// The metrics of one queue.
    pub(crate) fn queue(&self, worker: Worker) -> QueueStats {
        let labels = worker.queue();
        QueueStats {
            adds: self.adds.get_or_create_owned(&labels),
            retries: self.retries.get_or_create_owned(&labels),
            waited: self.waited.get_or_create_owned(&labels),
            worked: self.worked.get_or_create_owned(&labels),
        }
    }

    /// Sets the number of concurrent reconciles.
    pub(crate) fn workers(&self, worker: Worker, count: u16) {
        self.most.get_or_create(&worker.label()).set(i64::from(count));
    }

    /// Records that a reconcile begins. Call the returned function with its result.
    pub(crate) fn reconcile(&self, worker: Worker) -> impl FnOnce(&Result<(), ReconcileError>) {
        let (began, label) = (Instant::now(), worker.label());
        self.active.get_or_create(&label).inc();
        move |ended| {
            let result = match ended {
                Ok(()) => "success",
                Err(ReconcileError::Conflict { .. }) => "requeue",
                Err(_) => "error",
            };
            self.reconciles.get_or_create(&ResultLabels { controller: label.controller, result }).inc();
            if result == "error" {
                self.errors.get_or_create(&label).inc();
            }
            self.times.get_or_create(&label).observe(began.elapsed().as_secs_f64());
            self.active.get_or_create(&label).dec();
        }
    }

    /// Starts to measure phases.
    pub(crate) fn phases(&self) -> Phases<'_> {
        Phases { metrics: self, since: Instant::now() }
    }

    /// Records that a request to a webhook begins.
    pub(crate) fn webhook(&self, path: String) -> WebhookRequest<'_> {
        let label = WebhookLabel { webhook: path };
        self.webhook_open.get_or_create(&label).inc();
        WebhookRequest { metrics: self, began: Instant::now(), label }
    }

    /// Records a request to the API server and its status code, or that it had no answer.
    pub(crate) fn count_request(&self, request: &ApiRequest, host: &str, code: Option<u16>) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        let labels = RequestLabels { code, host: host.to_owned(), method: request.method.clone() };
        self.requests.get_or_create(&labels).inc();
        if let Some((resource, verb)) = &request.write {
            self.writes.get_or_create(&WriteLabels { resource: resource.clone(), verb }).inc();
        }
    }

    /// Sets whether this process leads, that is, reconciles.
    pub(crate) fn set_leading(&self, leads: bool) {
        self.leads.get_or_create(&NameLabel { name: CONTROLLER_LEASE }).set(leads.into());
    }
}

// === impl Phases ===

impl Phases<'_> {
    /// Records the time since the last call as the duration of this phase.
    pub(crate) fn end(&mut self, phase: Phase) {
        let now = Instant::now();
        let took: Duration = now - self.since;
        self.since = now;
        self.metrics.phases.get_or_create(&PhaseLabel { phase: phase.name() }).observe(took.as_secs_f64());
    }
}

// === impl WebhookRequest ===

impl WebhookRequest<'_> {
    /// Records the answer.
    pub(crate) fn answered(&self, code: u16) {
        let (metrics, webhook) = (self.metrics, self.label.webhook.clone());
        metrics.webhook_times.get_or_create(&self.label).observe(self.began.elapsed().as_secs_f64());
        metrics.webhook_requests.get_or_create(&WebhookCodeLabels { webhook, code }).inc();
    }
}

impl Drop for WebhookRequest<'_> {
    fn drop(&mut self) {
        self.metrics.webhook_open.get_or_create(&self.label).dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_to_a_webhook_that_is_given_up_runs_no_longer() {
        let metrics = Metrics::new();
        let label = WebhookLabel { webhook: "/validate".to_owned() };
        let open = || metrics.webhook_open.get_or_create(&label).get();
        let request = metrics.webhook("/validate".to_owned());
        assert_eq!(open(), 1);
        drop(request);
        assert_eq!(open(), 0);
    }
}
