//! The autoscaler: KEDA's and Kubernetes' formulas over the metrics of the endpoints and of the picker's queue.

use std::time::Duration;

use longboat_api::{
    foreign::scaledobject::ScaledObjectSpec,
    v1alpha2::KedaTrigger,
    wake_queue::{BYTES_METRIC, SIZE_METRIC},
};
use longboat_autoscale::{
    DEFAULT_MAX_REPLICAS, DEFAULT_MIN_REPLICAS, Labels, Sample, Scale, ScaledObjectState, Trigger,
    polling_interval,
};
use longboat_scheduler::Snapshot;

use crate::numbers::float;

const WAITING: &str = "vllm:num_requests_waiting";
const RUNNING: &str = "vllm:num_requests_running";
const KV_USAGE: &str = "vllm:kv_cache_usage_perc";
/// The metrics that triggers can read, besides former names.
const METRICS: [&str; 5] = [WAITING, RUNNING, KV_USAGE, SIZE_METRIC[0], BYTES_METRIC[0]];
/// The time between two looks of a HorizontalPodAutoscaler.
const HPA_SECONDS: i32 = 15;

/// What sets the number of endpoints.
#[derive(Debug, Clone, PartialEq)]
pub struct AutoscalerSettings(ScaledObjectSpec);

// === impl AutoscalerSettings ===

impl From<ScaledObjectSpec> for AutoscalerSettings {
    fn from(spec: ScaledObjectSpec) -> Self {
        Self(spec)
    }
}

impl AutoscalerSettings {
    /// Scales by the sum of a metric over the endpoints, divided by the threshold. A HorizontalPodAutoscaler looks every 15
    /// seconds and keeps a replica; KEDA looks every 30 seconds.
    pub fn of_metric(metric: &str, threshold: f64, bounds: (i32, i32), is_keda: bool) -> Self {
        let metadata =
            [("query".to_owned(), format!("sum({metric})")), ("threshold".to_owned(), threshold.to_string())];
        let trigger = KedaTrigger {
            type_: "prometheus".to_owned(),
            metadata: Some(metadata.into()),
            ..KedaTrigger::default()
        };
        let min_replicas = if is_keda { bounds.0 } else { bounds.0.max(1) };
        Self(ScaledObjectSpec {
            min_replica_count: Some(min_replicas),
            max_replica_count: Some(bounds.1),
            polling_interval: (!is_keda).then_some(HPA_SECONDS),
            triggers: vec![trigger],
            ..ScaledObjectSpec::default()
        })
    }

    /// Whether it takes all endpoints away from a pool without requests.
    pub(crate) fn scales_to_zero(&self) -> bool {
        self.0.idle_replica_count.or(self.0.min_replica_count).unwrap_or(DEFAULT_MIN_REPLICAS) == 0
    }

    /// The most endpoints.
    pub(crate) fn max_endpoints(&self) -> usize {
        usize::try_from(self.0.max_replica_count.unwrap_or(DEFAULT_MAX_REPLICAS)).unwrap_or_default()
    }
}

/// What waits in the queues of pickers and of the gateway.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queued {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
}

/// An autoscaler that runs.
#[derive(Debug)]
pub(crate) struct Autoscaler {
    spec: ScaledObjectSpec,
    triggers: Vec<Trigger>,
    state: ScaledObjectState,
}

// === impl Autoscaler ===

impl Autoscaler {
    pub(crate) fn new(settings: &AutoscalerSettings) -> Result<Self, String> {
        let spec = settings.0.clone();
        let triggers = Trigger::all(&spec)?;
        let is_queue = |name: &str| SIZE_METRIC.contains(&name) || BYTES_METRIC.contains(&name);
        for name in triggers.iter().flat_map(Trigger::names) {
            if !METRICS.contains(&name) && !is_queue(name) {
                return Err(format!("nothing has the metric {name} here, only {}", METRICS.join(", ")));
            }
        }
        if settings.scales_to_zero() && !triggers.iter().flat_map(Trigger::names).any(is_queue) {
            return Err(format!(
                "without endpoints only {} has a value, and no trigger reads it, so no endpoint would ever start: use it as \
                 metric, or keep a replica",
                SIZE_METRIC[0]
            ));
        }
        Ok(Self { spec, triggers, state: ScaledObjectState::default() })
    }

    /// The time between two looks at the metrics.
    pub(crate) fn interval(&self) -> Duration {
        polling_interval(&self.spec)
    }

    /// Returns the number of replicas that there should be.
    ///
    /// # Errors
    /// If a query has no single number.
    pub(crate) fn replicas(
        &mut self,
        ready: &[Snapshot],
        queued: Queued,
        scale: Scale,
        now: Duration,
    ) -> Result<i32, String> {
        let of = |snapshot: &Snapshot, name: &str, value: f64| {
            let labels = Labels::from([("pod".to_owned(), snapshot.endpoint.name.clone())]);
            Sample { name: name.to_owned(), labels, value }
        };
        let each = ready.iter().flat_map(|snapshot| {
            let metrics = &snapshot.metrics;
            [(WAITING, metrics.waiting), (RUNNING, metrics.running), (KV_USAGE, metrics.kv_usage)]
                .map(|(name, value)| of(snapshot, name, value))
        });
        let of_queue = |names: [&str; 2], value: u64| {
            let value = float(value);
            names.map(|name| Sample { name: name.to_owned(), labels: Labels::new(), value })
        };
        // Under the present and the former name: a trigger may ask for either.
        let queue =
            of_queue(SIZE_METRIC, queued.requests).into_iter().chain(of_queue(BYTES_METRIC, queued.bytes));
        let demand = self.state.poll(&self.triggers, each.chain(queue).collect(), scale, now)?;
        // The age of the object is that of the run.
        Ok(self.state.replicas(&self.spec, scale, Some(&demand), now, now))
    }
}
