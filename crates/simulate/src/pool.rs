//! The endpoints of a pool: each is an engine, and what the picker last read of its metrics.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use longboat_engine_model::{Engine, Output, Parameters};
use longboat_scheduler::{Endpoint, Metrics, Slot, Snapshot, float, flow::PoolMember};

const PORT: u16 = 8000;
/// The most endpoints: each has an address in 127.0.0.0/8.
pub(crate) const MAX_ENDPOINTS: usize = 1 << 16;

/// Equal endpoints.
#[derive(Debug, Clone, PartialEq)]
pub struct PoolSettings {
    /// The labels of their pods, by which filters of the picker know what they do.
    pub labels: BTreeMap<String, String>,
    /// Their number.
    pub replicas: usize,
    /// Their engines.
    pub engine: Parameters,
    /// The accelerators of each.
    pub accelerators: f64,
}

/// Something that happens to the pool at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolChange {
    /// The endpoint with this number, from 0, fails. Its requests are lost, and no further ones go to it.
    Fail(usize),
    /// The first group gets this many endpoints. New ones start first, and have empty caches; those that go finish their requests.
    Replicas(usize),
}

/// An endpoint.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) engine: Engine,
    /// The group that it belongs to.
    pub(crate) group: usize,
    /// The metrics of the last scrape.
    published: Arc<Metrics>,
    /// Whether no scrape has read the metrics since they changed.
    is_unread: bool,
    /// The moment of its first scrape, in nanoseconds. Scrapes are spread over the interval.
    phase: u64,
    /// Counts its events: an earlier one is void.
    pub(crate) generation: u64,
    pub(crate) since: u64,
    /// When it went. `None` while it is there.
    pub(crate) removed_at: Option<u64>,
    /// Whether it has started.
    pub(crate) is_ready: bool,
    /// Whether it gets no further requests.
    pub(crate) is_draining: bool,
    /// Requests that were sent to it.
    pub(crate) requests: u64,
    pub(crate) outputs: Vec<Output>,
}

// === impl Member ===

impl Member {
    pub(crate) fn new(
        number: usize,
        slot: Slot,
        group: (usize, &PoolSettings),
        now: u64,
        scrape: u64,
    ) -> Self {
        let (index, settings) = group;
        // Only the order of addresses matters, and after 65,535 members they repeat.
        let [.., third, fourth] = (number + 1).to_be_bytes();
        let address = SocketAddr::from(([127, 1, third, fourth], PORT));
        let endpoint = Endpoint {
            slot,
            namespace: "default".to_owned(),
            name: format!("endpoint-{number}"),
            host_port: address.to_string(),
            address,
            labels: settings.labels.clone(),
        };
        let mut member = Self {
            endpoint: Arc::new(endpoint),
            engine: Engine::new(settings.engine),
            group: index,
            published: Arc::default(),
            is_unread: false,
            phase: longboat_engine_model::split_mix::mix(number as u64) % scrape.max(1),
            generation: 0,
            since: now,
            removed_at: None,
            is_ready: true,
            is_draining: false,
            requests: 0,
            outputs: Vec::new(),
        };
        member.published = Arc::new(member.metrics());
        member
    }

    fn metrics(&self) -> Metrics {
        let (load, parameters) = (self.engine.load(), self.engine.parameters());
        Metrics {
            waiting: float(load.waiting as u64),
            running: float(load.running as u64),
            kv_usage: load.kv_usage,
            block_size: u32::try_from(parameters.block_size).unwrap_or(u32::MAX),
            num_blocks: u32::try_from(parameters.cache_blocks).unwrap_or(u32::MAX),
            ..Metrics::default()
        }
    }

    /// Records that the engine has changed. Returns the moment of the scrape that reads the change, unless an earlier change is
    /// still unread: the same scrape reads both.
    pub(crate) fn change(&mut self, now: u64, interval: u64) -> Option<u64> {
        if std::mem::replace(&mut self.is_unread, true) {
            return None;
        }
        // An interval of 0 stands for metrics that are always new.
        let scrapes = now.saturating_sub(self.phase).div_ceil(interval.max(1));
        Some(self.phase.saturating_add(scrapes.saturating_mul(interval.max(1))))
    }

    /// Lets a scrape read the metrics. Must be called before the engine changes after the scrape.
    pub(crate) fn publish(&mut self) {
        self.published = Arc::new(self.metrics());
        self.is_unread = false;
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot { endpoint: Arc::clone(&self.endpoint), metrics: Arc::clone(&self.published), fresh: true }
    }

    /// Takes it out of the pool for good.
    pub(crate) fn leave(&mut self, now: u64) {
        self.removed_at = Some(now);
        // No event of its engine counts any more.
        self.generation += 1;
        // An autoscaler adds and removes members as long as the trace goes on, and each cache has thousands of blocks.
        self.engine = Engine::new(*self.engine.parameters());
    }

    pub(crate) fn is_candidate(&self) -> bool {
        self.removed_at.is_none() && self.is_ready && !self.is_draining
    }
}

/// A candidate as detectors of saturation see it. Scrapes never fail, so metrics are as old as the interval at most.
pub(crate) struct PoolEntry<'a>(pub(crate) &'a Snapshot, pub(crate) Duration);

impl PoolMember for PoolEntry<'_> {
    fn slot(&self) -> Slot {
        self.0.endpoint.slot
    }

    fn labels(&self) -> &BTreeMap<String, String> {
        &self.0.endpoint.labels
    }

    fn metrics(&self, stale_after_ms: u64) -> Option<Arc<Metrics>> {
        (self.1 <= Duration::from_millis(stale_after_ms)).then(|| Arc::clone(&self.0.metrics))
    }
}

#[cfg(test)]
mod tests {
    use longboat_engine_model::{Job, Timing};

    use super::*;

    #[test]
    fn metrics_are_those_of_the_last_scrape() {
        let engine = Parameters {
            max_num_seqs: 1,
            max_waiting: 10,
            block_size: 16,
            cache_blocks: 64,
            max_model_len: 1024,
            timing: Timing::realistic(),
        };
        let settings = PoolSettings { labels: BTreeMap::new(), replicas: 1, engine, accelerators: 1.0 };
        let mut member = Member { phase: 20, ..Member::new(0, Slot(0), (0, &settings), 0, 50) };
        let job = |id| Job { id, hashes: [].into(), prompt_tokens: 8, output_tokens: 2, is_prefilled: false };
        let running = |member: &Member| member.snapshot().metrics.running + member.snapshot().metrics.waiting;
        let enqueue = |member: &mut Member, id, now| {
            member.engine.enqueue(job(id), &mut Vec::new()).unwrap();
            member.change(now, 50)
        };
        // Scrapes at 20, 70 and 120.
        assert_eq!(enqueue(&mut member, 1, 30), Some(70));
        assert!(running(&member) < 0.5);
        member.publish();
        assert!((running(&member) - 1.0).abs() < 0.1);
        // The scrape at 70 has seen the first request, and not the others. One scrape reads both.
        assert_eq!(enqueue(&mut member, 2, 71), Some(120));
        assert_eq!(enqueue(&mut member, 3, 119), None);
        assert!((running(&member) - 1.0).abs() < 0.1);
        member.publish();
        assert!((running(&member) - 3.0).abs() < 0.1);
        // A scrape sees what happens at its own moment.
        assert_eq!(enqueue(&mut member, 4, 170), Some(170));
        member.publish();
        assert_eq!(Member { phase: 20, ..member }.change(5, 50), Some(20));
    }
}
