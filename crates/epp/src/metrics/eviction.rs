//! Requests in flight that were evicted to make room.

use std::sync::atomic::AtomicU64;

use longboat_scheduler::flow::EvictionOutcome;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use super::buckets::{Buckets, EVICTION_DURATION};

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DemandLabels {
    inference_pool: String,
    priority: i32,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    inference_pool: String,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Pool {
    inference_pool: String,
}

type Decimal = Gauge<f64, AtomicU64>;

/// The series of eviction.
#[derive(Debug)]
pub(crate) struct EvictionMetrics {
    pool: String,
    issued: Family<DemandLabels, Counter>,
    ended: Family<OutcomeLabels, Counter>,
    target: Family<Pool, Decimal>,
    pending: Family<Pool, Decimal>,
    confirmed: Family<Pool, Histogram, Buckets>,
}

impl EvictionMetrics {
    /// Registers the series.
    pub(super) fn new(registry: &mut Registry, pool: &str) -> Self {
        let metrics = Self {
            pool: pool.to_owned(),
            issued: Family::default(),
            ended: Family::default(),
            target: Family::default(),
            pending: Family::default(),
            confirmed: Family::new_with_constructor(Buckets(EVICTION_DURATION)),
        };
        let name = |name: &str| format!("llm_d_epp_flow_control_{name}");
        let help = "Evicted requests, by the priority of the waiting requests for which they were evicted";
        registry.register(name("revocations_issued"), help, metrics.issued.clone());
        let help = "Evicted requests by outcome";
        registry.register(name("revocations"), help, metrics.ended.clone());
        let help = "Excess of the saturation over its limit at the last eviction";
        registry.register(name("reclaim_target"), help, metrics.target.clone());
        let help = "Part of the saturation that is due to evicted requests that have not ended yet";
        registry.register(name("pending_reclaim"), help, metrics.pending.clone());
        let help = "Time until an evicted request ended";
        registry.register(name("revocation_confirmation_seconds"), help, metrics.confirmed.clone());
        metrics
    }

    fn labels(&self) -> Pool {
        Pool { inference_pool: self.pool.clone() }
    }

    /// Counts requests that were evicted for waiting requests of this priority. `target` is the excess saturation; `pending` is
    /// the part that evicted requests will free.
    pub(crate) fn evicted(&self, priority: i32, count: usize, (target, pending): (f64, f64)) {
        let demand = DemandLabels { inference_pool: self.pool.clone(), priority };
        self.issued.get_or_create(&demand).inc_by(count as u64);
        self.target.get_or_create(&self.labels()).set(target);
        self.pending.get_or_create(&self.labels()).set(pending);
    }

    /// Counts an evicted request that has ended. `pending` is the saturation that the remaining evicted requests will free.
    pub(crate) fn gone(&self, gone: EvictionOutcome, pending: f64) {
        let outcome = match gone {
            EvictionOutcome::After(_) => "confirmed",
            EvictionOutcome::Late => "timed_out",
        };
        let ended = OutcomeLabels { inference_pool: self.pool.clone(), outcome };
        self.ended.get_or_create(&ended).inc();
        self.pending.get_or_create(&self.labels()).set(pending);
        if let EvictionOutcome::After(ms) = gone {
            let took = std::time::Duration::from_millis(ms).as_secs_f64();
            self.confirmed.get_or_create(&self.labels()).observe(took);
        }
    }
}
