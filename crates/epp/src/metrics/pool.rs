//! Metrics of the pool and its endpoints, computed at each scrape.

use std::sync::Arc;

use longboat_scheduler::{
    Slot,
    flow::{Served, Shares},
};

use super::{
    PickerMetrics,
    labels::{EndpointLabels, LoadLabels, PodLabels},
    length,
};
use crate::pool::Member;

impl PickerMetrics {
    /// Sets the load in flight at each endpoint: requests and uncached prompt tokens.
    pub(crate) fn in_flight(&self, members: &[Arc<Member>], load: impl Fn(Slot) -> (u64, u64)) {
        self.in_flight_requests.clear();
        self.in_flight_tokens.clear();
        for member in members {
            let labels = LoadLabels {
                endpoint_name: member.endpoint.name.clone(),
                namespace: member.endpoint.namespace.clone(),
                producer_name: "inflight-load-producer",
            };
            let (requests, tokens) = load(member.endpoint.slot);
            let gauge = |count| i64::try_from(count).unwrap_or(i64::MAX);
            self.in_flight_requests.get_or_create(&labels).set(gauge(requests));
            self.in_flight_tokens.get_or_create(&labels).set(gauge(tokens));
        }
    }

    /// Sets the flow control metrics that are computed at each scrape. `stale` is `None` if the saturation is not computed from
    /// metrics, and `served` is `None` if no fairness policy counts service.
    pub(crate) fn flow_numbers(
        &self,
        shares: &Shares,
        stale: Option<usize>,
        served: Option<&[(Arc<str>, Served)]>,
    ) {
        self.limits.shares(shares);
        if let Some(stale) = stale {
            self.limits.stale(stale);
        }
        if let Some(served) = served {
            self.limits.served(served, |flow| self.flows.label(flow));
        }
    }

    /// Returns the metrics page. The metrics of the pool are computed here.
    pub(crate) fn page(
        &self,
        members: &[Arc<Member>],
        prefix_blocks: usize,
        bodies: &longboat_accept::Budget,
    ) -> String {
        self.pool_numbers(members);
        let gauge = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
        self.body_bytes.set(gauge(bodies.held()));
        self.body_limit.set(gauge(bodies.limit()));
        self.prefixes.set(i64::try_from(prefix_blocks).unwrap_or(i64::MAX));
        let mut page = String::new();
        if let Err(error) = prometheus_client::encoding::text::encode(&mut page, &self.registry) {
            tracing::error!(%error, "Cannot write the metrics page.");
        }
        page
    }

    fn pool_numbers(&self, members: &[Arc<Member>]) {
        self.endpoint_queue.clear();
        self.pod_queue.clear();
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
            self.endpoint_queue
                .get_or_create(&EndpointLabels {
                    name: self.pool.name.clone(),
                    model_server_endpoint: snapshot.endpoint.name.clone(),
                })
                .set(snapshot.metrics.waiting);
            self.pod_queue
                .get_or_create(&PodLabels {
                    name: self.pool.name.clone(),
                    model_server_pod: snapshot.endpoint.name.clone(),
                })
                .set(snapshot.metrics.waiting);
        }
        let count = length(members.len().max(1));
        self.kv_usage.get_or_create(&self.pool).set(kv / count);
        self.queue.get_or_create(&self.pool).set(queue / count);
        self.running_average.get_or_create(&self.pool).set(running / count);
        for ((family, square), sum) in self.deviations.iter().zip(squares).zip([kv, queue, running]) {
            let mean = sum / count;
            // Rounding can make the variance negative.
            family.get_or_create(&self.pool).set((square / count - mean * mean).max(0.0).sqrt());
        }
        self.ready.get_or_create(&self.pool).set(i64::try_from(members.len()).unwrap_or(i64::MAX));
    }
}
