//! What all requests share.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use longboat_accept::Budget;
use longboat_scheduler::{Scheduler, Snapshot, State, config::Parser, flow};
use parking_lot::RwLock;
use tokio::time::Instant;

use crate::{
    admission::Admission,
    burst::Bursts,
    decisions::Decisions,
    latency::Predictor,
    metrics::PickerMetrics,
    pool::{Desired, Pool},
    rewrites::Rewrites,
    tokens::TokenSource,
};

/// How requests are treated.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// Whether a subset hint is ignored.
    pub(crate) ignore_subset: bool,
    /// Whether replies carry the scores.
    pub(crate) emit_scores: bool,
    /// The age at which metrics stop counting; `None`: nothing is scraped, so nothing is stale.
    pub(crate) stale_after: Option<Duration>,
    /// The longest request body, in bytes.
    pub(crate) max_body: usize,
    /// Which requests are understood.
    pub(crate) parsers: Vec<Parser>,
    /// The bytes of all request bodies, and of what is made of them.
    pub(crate) max_bodies: usize,
    /// When requests wait, and for how long.
    pub(crate) flow: flow::Settings,
    /// How long the saturation takes to show that a request is gone.
    pub(crate) settling: Duration,
}

/// The scheduler with its memory and the pool.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) scheduler: Scheduler,
    pub(crate) state: RwLock<State>,
    pub(crate) pool: Pool,
    pub(crate) settings: Settings,
    pub(crate) metrics: PickerMetrics,
    /// What requests and responses hold of bodies.
    pub(crate) bodies: Arc<Budget>,
    /// Requests that wait for room in the pool.
    pub(crate) admission: Admission,
    /// Which models are asked for instead of others.
    pub(crate) rewrites: ArcSwap<Rewrites>,
    /// Who is asked for the tokens of prompts; `None`: text stands for them.
    pub(crate) tokens: Option<Arc<dyn TokenSource>>,
    /// Who is asked how long requests would take.
    pub(crate) predictor: Option<Arc<Predictor>>,
    /// Where requests wait for others with their prompt, if they do.
    pub(crate) bursts: Option<Bursts>,
    /// Recent decisions, if they are kept.
    pub(crate) decisions: Decisions,
    started: Instant,
    draining: AtomicBool,
    listening: AtomicBool,
    leading: AtomicBool,
}

impl Core {
    pub(crate) fn new(mut scheduler: Scheduler, settings: Settings, pool_name: &str) -> Self {
        let mut metrics = PickerMetrics::new(pool_name);
        let state = scheduler.state();
        if !state.holdings().is_empty() {
            metrics.count_blocks();
        }
        scheduler.time_plugins(|role| metrics.plugins.watch(role));
        Self {
            state: RwLock::new(state),
            bursts: scheduler.burst().cloned().map(Bursts::new),
            scheduler,
            pool: Pool::new(),
            bodies: Budget::new(settings.max_bodies),
            admission: Admission::new(settings.flow.clone(), settings.settling),
            rewrites: ArcSwap::default(),
            tokens: None,
            predictor: None,
            settings,
            decisions: Decisions::new(0),
            metrics,
            started: Instant::now(),
            draining: AtomicBool::new(false),
            listening: AtomicBool::new(false),
            leading: AtomicBool::new(true),
        }
    }

    /// Asks this source for the tokens of prompts.
    pub(crate) fn with_tokens(mut self, source: Option<Arc<dyn TokenSource>>) -> Self {
        self.tokens = source;
        self
    }

    /// Makes the endpoints exactly these.
    pub(crate) fn set_endpoints(&self, desired: Vec<Desired>) {
        let freed = self.pool.set(desired);
        self.forget(&freed);
    }

    /// There is no pool.
    pub(crate) fn clear_endpoints(&self) {
        let freed = self.pool.clear();
        self.forget(&freed);
    }

    fn forget(&self, freed: &[longboat_scheduler::Slot]) {
        if !freed.is_empty() {
            let mut state = self.state.write();
            for slot in freed {
                state.forget(*slot);
            }
        }
    }

    /// The endpoints as they look now.
    pub(crate) fn snapshot(&self) -> Vec<Snapshot> {
        let now = Instant::now();
        self.pool.members().iter().map(|member| member.snapshot(now, self.settings.stale_after)).collect()
    }

    /// Milliseconds since the start.
    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The port for ext_proc is bound.
    pub(crate) fn listening(&self) {
        self.listening.store(true, Ordering::Release);
    }

    /// Whether we are the one of several pickers that requests should come to.
    pub(crate) fn lead(&self, leading: bool) {
        self.leading.store(leading, Ordering::Release);
    }

    /// New requests should go elsewhere.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Whether requests should come here: the pool is known, the port is bound, nobody else leads, and we are not on
    /// the way out.
    pub(crate) fn is_serving(&self) -> bool {
        self.pool.is_synced()
            && self.listening.load(Ordering::Acquire)
            && self.leading.load(Ordering::Acquire)
            && !self.draining.load(Ordering::Acquire)
    }
}
