//! Requests in flight that were evicted to make room.

use longboat_metrics::{Buckets, Decimal, Histograms, labels, metrics};
use longboat_scheduler::flow::EvictionOutcome;
use prometheus_client::metrics::{counter::Counter, family::Family};

use super::buckets::EVICTION_DURATION;

labels! {
    struct DemandLabels { inference_pool: String, priority: i32 }
    struct OutcomeLabels { inference_pool: String, outcome: &'static str }
    struct Pool { inference_pool: String }
}

metrics! {
    /// The series of eviction.
    #[derive(Debug)]
    pub(crate) struct EvictionMetrics(pool: String) {
        issued: Family<DemandLabels, Counter>
            => "llm_d_epp_flow_control_revocations_issued",
            "Evicted requests, by the priority of the waiting requests for which they were evicted";
        ended: Family<OutcomeLabels, Counter> => "llm_d_epp_flow_control_revocations", "Evicted requests by outcome";
        target: Family<Pool, Decimal>
            => "llm_d_epp_flow_control_reclaim_target",
            "Excess of the saturation over its limit at the last eviction";
        pending: Family<Pool, Decimal>
            => "llm_d_epp_flow_control_pending_reclaim",
            "Part of the saturation that is due to evicted requests that have not ended yet";
        confirmed: Histograms<Pool> = Family::new_with_constructor(Buckets(EVICTION_DURATION))
            => "llm_d_epp_flow_control_revocation_confirmation_seconds", "Time until an evicted request ended";
    }
}

impl EvictionMetrics {
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
