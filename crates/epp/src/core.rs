//! The state that all requests share.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use longboat_accept::Budget;
use longboat_scheduler::{Scheduler, Slot, Snapshot, State, config::Parser, flow, millis};
use parking_lot::RwLock;
use tokio::time::Instant;

use crate::{
    admission::Admission,
    answer::Refusal,
    burst::Bursts,
    decisions::Decisions,
    latency::Predictor,
    metrics::PickerMetrics,
    pool::{EndpointSpec, Pool},
    request_trace::RequestTrace,
    rewrites::Rewrites,
    tokens::TokenSource,
};

/// The most memory for KV cache events that have not come whole, over all connections.
const MAX_EVENT_BYTES: usize = 128 << 20;

/// The settings for handling requests.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Whether the proxy's subset hint is ignored.
    pub(crate) ignore_subset: bool,
    /// Whether replies include the scores.
    pub(crate) emit_scores: bool,
    /// The age at which metrics are stale. `None` if nothing is scraped; then metrics are never stale.
    pub(crate) stale_after: Option<Duration>,
    /// The longest request body, in bytes.
    pub(crate) max_body: usize,
    /// The parsers that are configured.
    pub(crate) parsers: Vec<Parser>,
    /// The limit for the bytes of all request bodies together, copies included.
    pub(crate) max_bodies: usize,
    /// Whether the priority of a request is written into its body.
    pub(crate) propagate_priority: bool,
    /// The settings of flow control.
    pub(crate) flow: flow::Settings,
    /// The time until the saturation shows that a request has ended.
    pub(crate) settling: Duration,
}

/// The scheduler, its state, the pool, and the parts that requests use.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) scheduler: Scheduler,
    pub(crate) state: RwLock<State>,
    pub(crate) pool: Pool,
    pub(crate) settings: Settings,
    pub(crate) metrics: PickerMetrics,
    /// The memory that request and response bodies use.
    pub(crate) bodies: Arc<Budget>,
    /// The memory for KV cache events that have not come whole.
    pub(crate) event_bytes: Arc<Budget>,
    /// Requests that wait for room in the pool.
    pub(crate) admission: Admission,
    /// The rules that replace the requested model by another.
    pub(crate) rewrites: ArcSwap<Rewrites>,
    /// The source of the tokens of prompts. `None` if prompts are compared as text.
    pub(crate) tokens: Option<Arc<dyn TokenSource>>,
    /// The predictor of latencies.
    pub(crate) predictor: Option<Arc<Predictor>>,
    /// The windows in which requests with the same prompt are gathered.
    pub(crate) bursts: Option<Bursts>,
    /// Recent decisions.
    pub(crate) decisions: Decisions,
    /// The trace of requests, if one is written.
    pub(crate) trace: Option<RequestTrace>,
    /// Requests for which there was no memory.
    full: AtomicU64,
    started: Instant,
    draining: AtomicBool,
    listening: AtomicBool,
    leading: AtomicBool,
}

impl Core {
    pub(crate) fn new(mut scheduler: Scheduler, settings: Settings, pool_name: &str) -> Self {
        let metrics = PickerMetrics::new(pool_name, &scheduler);
        let state = scheduler.state();
        scheduler.time_plugins(|role| metrics.plugins.watch(role));
        Self {
            state: RwLock::new(state),
            bursts: scheduler.burst().cloned().map(Bursts::new),
            scheduler,
            pool: Pool::new(),
            bodies: Budget::new(settings.max_bodies),
            event_bytes: Budget::new(MAX_EVENT_BYTES),
            admission: Admission::new(settings.flow.clone(), settings.settling),
            rewrites: ArcSwap::default(),
            tokens: None,
            predictor: None,
            settings,
            decisions: Decisions::new(0),
            trace: None,
            metrics,
            full: AtomicU64::new(0),
            started: Instant::now(),
            draining: AtomicBool::new(false),
            listening: AtomicBool::new(false),
            // Without an election, each picker leads.
            leading: AtomicBool::new(true),
        }
    }

    /// Returns the refusal of a request for which there is no memory, and counts it.
    pub(crate) fn full(&self) -> Refusal {
        self.full.fetch_add(1, Ordering::Relaxed);
        Refusal::full(self.bodies.limit())
    }

    /// Returns how many requests had no memory since the last call.
    pub(crate) fn take_full(&self) -> u64 {
        self.full.swap(0, Ordering::Relaxed)
    }

    /// Completes the trace of requests. No more requests may arrive.
    pub(crate) fn close_trace(&self) {
        if let Some(trace) = &self.trace {
            trace.close();
        }
    }

    /// Replaces the endpoints.
    pub(crate) fn set_endpoints(&self, desired: Vec<EndpointSpec>) {
        let freed = self.pool.set(desired);
        self.forget(&freed);
    }

    /// Removes all endpoints, because there is no pool.
    pub(crate) fn clear_endpoints(&self) {
        let freed = self.pool.clear();
        self.forget(&freed);
    }

    fn forget(&self, freed: &[Slot]) {
        if !freed.is_empty() {
            // The blocks that engines have reported take longest, and need no lock of the whole state.
            let holdings = self.state.read().holdings();
            for holdings in holdings {
                for slot in freed {
                    holdings.forget(*slot);
                }
            }
            let mut state = self.state.write();
            for slot in freed {
                state.forget(*slot);
            }
            drop(state);
            self.metrics.keep_endpoints(&self.pool.members());
        }
    }

    /// Returns the current state of all endpoints.
    pub(crate) fn snapshot(&self) -> Vec<Snapshot> {
        let now = Instant::now();
        self.pool.members().iter().map(|member| member.snapshot(now, self.settings.stale_after)).collect()
    }

    /// Returns the milliseconds since the start.
    pub(crate) fn now_ms(&self) -> u64 {
        millis(self.started.elapsed())
    }

    /// Records that the ext_proc port is bound.
    pub(crate) fn listening(&self) {
        self.listening.store(true, Ordering::Release);
    }

    /// Records whether this picker is the leader among several.
    pub(crate) fn lead(&self, leading: bool) {
        self.leading.store(leading, Ordering::Release);
    }

    /// Records that the picker is about to stop, so new requests should go elsewhere.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Whether this picker should receive requests: the pool is known, the port is bound, this picker leads, and it is not
    /// about to stop.
    pub(crate) fn is_serving(&self) -> bool {
        self.pool.is_synced()
            && self.listening.load(Ordering::Acquire)
            && self.leading.load(Ordering::Acquire)
            && !self.draining.load(Ordering::Acquire)
    }
}
