//! Metrics of the pool and its endpoints, computed at each scrape.

use std::{collections::BTreeSet, sync::Arc};

use longboat_scheduler::{
    State, float,
    flow::{FlowService, Shares},
};

use super::{
    PickerMetrics, PickerSeries,
    labels::{EndpointLabels, LoadLabels, PodLabels},
};
use crate::pool::Member;

/// The most loads of flows at endpoints with series of their own. Further loads of an endpoint are added up.
const MAX_LOADS: usize = 500;

impl PickerMetrics {
    /// Sets the load in flight at each endpoint, for each flow: requests and uncached prompt tokens. All producers of loads
    /// count the same.
    pub(crate) fn in_flight(&self, members: &[Arc<Member>], state: &State) {
        self.series.in_flight_requests.clear();
        self.series.in_flight_tokens.clear();
        let gauge = |count| i64::try_from(count).unwrap_or(i64::MAX);
        let mut named = 0;
        for Member { endpoint, .. } in members.iter().map(AsRef::as_ref) {
            for (flow, (requests, tokens)) in state.flows_in_flight(endpoint.slot) {
                named += 1;
                for producer in &self.load_producers {
                    let labels = LoadLabels {
                        endpoint_name: endpoint.name.clone(),
                        namespace: endpoint.namespace.clone(),
                        producer_name: producer.clone(),
                        fairness_id: if named > MAX_LOADS { "other" } else { &flow.fairness_id }.to_owned(),
                        priority: flow.priority,
                    };
                    self.series.in_flight_requests.get_or_create(&labels).inc_by(gauge(requests));
                    self.series.in_flight_tokens.get_or_create(&labels).inc_by(gauge(tokens));
                }
            }
        }
    }

    /// Removes the series of endpoints that have left the pool.
    pub(crate) fn keep_endpoints(&self, members: &[Arc<Member>]) {
        let mut names: BTreeSet<String> = members.iter().map(|member| member.endpoint.full_name()).collect();
        names.insert(String::new());
        self.series.attempts.keep(&names);
        self.series.former_attempts.keep(&names);
        self.encoder_cache.keep(&names);
        if let Some(kv_cache) = &self.kv_cache {
            kv_cache.events.keep(&names);
        }
    }

    /// Sets the flow control metrics that are computed at each scrape. `stale` is `None` if the saturation is not computed from
    /// metrics, and `served` is `None` if no fairness policy counts service.
    pub(crate) fn flow_numbers(
        &self,
        shares: &Shares,
        stale: Option<usize>,
        served: Option<&[(Arc<str>, FlowService)]>,
    ) {
        self.limits.shares(shares);
        if let Some(stale) = stale {
            self.limits.stale(stale);
        }
        if let Some(served) = served {
            self.limits.served(served, |flow| self.flows.label(flow).to_string());
        }
    }

    /// Returns the metrics page. The metrics of the pool are computed here.
    pub(crate) fn page(&self, members: &[Arc<Member>], bodies: &longboat_accept::Budget) -> String {
        self.pool_numbers(members);
        let gauge = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
        self.series.body_bytes.set(gauge(bodies.held()));
        self.series.body_limit.set(gauge(bodies.limit()));
        let mut page = String::new();
        if let Err(error) = prometheus_client::encoding::text::encode(&mut page, &self.registry) {
            tracing::error!(%error, "Cannot write the metrics page.");
        }
        page
    }

    fn pool_numbers(&self, members: &[Arc<Member>]) {
        self.series.endpoint_queue.clear();
        self.series.pod_queue.clear();
        let now = tokio::time::Instant::now();
        let (mut kv, mut queue, mut running) = (0.0, 0.0, 0.0);
        let mut squares = [0.0; 3];
        for member in members {
            let snapshot = member.snapshot(now, None);
            kv += snapshot.metrics.kv_usage;
            queue += snapshot.metrics.waiting;
            running += snapshot.metrics.running;
            let metrics = &snapshot.metrics;
            for (square, value) in
                squares.iter_mut().zip([metrics.kv_usage, metrics.waiting, metrics.running])
            {
                *square += value * value;
            }
            let (pool, name) = (self.pool.clone(), snapshot.endpoint.name.clone());
            let labels = EndpointLabels { pool: pool.clone(), model_server_endpoint: name.clone() };
            self.series.endpoint_queue.get_or_create(&labels).set(metrics.waiting);
            let former = PodLabels { pool, model_server_pod: name };
            self.series.pod_queue.get_or_create(&former).set(metrics.waiting);
        }
        let PickerSeries { kv_deviation, queue_deviation, running_deviation, .. } = &self.series;
        let deviations = [kv_deviation, queue_deviation, running_deviation];
        let count = float(members.len().max(1) as u64);
        self.series.kv_usage.get_or_create(&self.pool).set(kv / count);
        self.series.queue.get_or_create(&self.pool).set(queue / count);
        self.series.running_average.get_or_create(&self.pool).set(running / count);
        for ((family, square), sum) in deviations.into_iter().zip(squares).zip([kv, queue, running]) {
            let mean = sum / count;
            // Rounding can make the variance negative.
            family.get_or_create(&self.pool).set((square / count - mean * mean).max(0.0).sqrt());
        }
        self.series.ready.get_or_create(&self.pool).set(i64::try_from(members.len()).unwrap_or(i64::MAX));
    }
}
