//! Metrics of flow control that are computed at each scrape: the used share of each limit, endpoints with stale metrics, and
//! the service of flows.

use std::{collections::BTreeMap, hash::Hash, sync::Arc};

use longboat_metrics::{Decimal, labels, metrics};
use longboat_scheduler::{
    float,
    flow::{FlowService, Share, Shares},
};
use prometheus_client::metrics::{family::Family, gauge::Gauge};

labels! {
    struct BandLabels { priority: i64, inference_pool: String }
    struct PoolLabels { inference_pool: String }
    struct DetectorLabel { detector: &'static str }
    struct ProgramLabel { program_id: String }
}

metrics! {
    /// The series.
    #[derive(Debug)]
    pub(super) struct LimitMetrics(pool: String) {
        requests: Family<BandLabels, Decimal>
            => "llm_d_epp_flow_control_capacity_utilization_requests",
            "Used share of a priority band's limit of requests";
        bytes: Family<BandLabels, Decimal>
            => "llm_d_epp_flow_control_capacity_utilization_bytes",
            "Used share of a priority band's limit of bytes";
        all_requests: Family<PoolLabels, Decimal>
            => "llm_d_epp_flow_control_global_capacity_utilization_requests",
            "Used share of the limit of requests for all bands";
        all_bytes: Family<PoolLabels, Decimal>
            => "llm_d_epp_flow_control_global_capacity_utilization_bytes",
            "Used share of the limit of bytes for all bands";
        stale: Family<DetectorLabel, Gauge>
            => "llm_d_epp_flow_control_stale_endpoints", "Endpoints whose metrics are missing or too old";
        attained: Family<ProgramLabel, Decimal>
            => "llm_d_epp_program_aware_attained_service_tokens",
            "Tokens that a flow was served; older tokens count less";
        waits: Family<ProgramLabel, Decimal>
            => "llm_d_epp_program_aware_avg_wait_time_milliseconds", "Mean wait of a flow's requests";
        /// Absent if no policy counts the service of flows.
        fairness: Family<[(&'static str, &'static str); 0], Decimal>
            => "llm_d_epp_program_aware_jains_fairness_index",
            "Jain's fairness index of the tokens served to flows: 1 means that all flows got the same, near 0 \
             means that one flow got all";
    }
}

impl LimitMetrics {
    /// Sets the used share of each limit.
    pub(super) fn shares(&self, shares: &Shares) {
        self.requests.clear();
        self.bytes.clear();
        for (priority, Share { requests, bytes }) in &shares.bands {
            let labels = BandLabels { priority: (*priority).into(), inference_pool: self.pool.clone() };
            set(&self.requests, &labels, *requests);
            set(&self.bytes, &labels, *bytes);
        }
        let labels = PoolLabels { inference_pool: self.pool.clone() };
        set(&self.all_requests, &labels, shares.all.requests);
        set(&self.all_bytes, &labels, shares.all.bytes);
    }

    /// Sets the number of endpoints without recent metrics.
    pub(super) fn stale(&self, endpoints: usize) {
        let labels = DetectorLabel { detector: "utilization-detector" };
        self.stale.get_or_create(&labels).set(i64::try_from(endpoints).unwrap_or(i64::MAX));
    }

    /// Sets the service that flows have received. `label` bounds the number of label values.
    pub(super) fn served(&self, flows: &[(Arc<str>, FlowService)], label: impl Fn(&str) -> String) {
        self.attained.clear();
        self.waits.clear();
        let mut programs = BTreeMap::<String, FlowService>::new();
        let (mut sum, mut squares) = (0.0, 0.0);
        for (flow, served) in flows {
            sum += served.tokens;
            squares += served.tokens * served.tokens;
            let nothing = FlowService { tokens: 0.0, requests: 0, waited_ms: 0 };
            let program = programs.entry(label(flow)).or_insert(nothing);
            program.tokens += served.tokens;
            program.requests += served.requests;
            program.waited_ms = program.waited_ms.saturating_add(served.waited_ms);
        }
        for (program_id, served) in programs {
            let labels = ProgramLabel { program_id };
            self.attained.get_or_create(&labels).set(served.tokens);
            if served.requests > 0 {
                let mean = float(served.waited_ms) / float(served.requests);
                self.waits.get_or_create(&labels).set(mean);
            }
        }
        let index = if squares > 0.0 { sum * sum / (float(flows.len() as u64) * squares) } else { 1.0 };
        self.fairness.get_or_create(&[]).set(index);
    }
}

/// Sets a gauge, if there is a limit.
fn set<L: Clone + Hash + Eq>(gauges: &Family<L, Decimal>, labels: &L, share: Option<f64>) {
    if let Some(share) = share {
        gauges.get_or_create(labels).set(share);
    }
}
