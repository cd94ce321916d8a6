//! How many sequences wait and run, and how full the cache is.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

/// Values that the engine publishes.
#[derive(Default)]
pub(crate) struct Gauges {
    /// Sequences that were sent and do not run, as [`SequenceGauge`] counts them.
    pub(crate) waiting: AtomicI64,
    pub(crate) running: AtomicI64,
    /// The used share of the cache, in millionths.
    pub(crate) cache: AtomicI64,
}

/// Counts a sequence among those that wait or those that run, until it is dropped.
pub(crate) struct SequenceGauge {
    gauges: Arc<Gauges>,
    is_running: bool,
}

// === impl Gauges ===

impl Gauges {
    /// The number of sequences that wait or run.
    pub(crate) fn answers(&self) -> usize {
        let answers = self.waiting.load(Ordering::Relaxed) + self.running.load(Ordering::Relaxed);
        usize::try_from(answers).unwrap_or_default()
    }
}

// === impl SequenceGauge ===

impl SequenceGauge {
    /// Counts a sequence that waits.
    pub(crate) fn waiting(gauges: &Arc<Gauges>) -> Self {
        gauges.waiting.fetch_add(1, Ordering::Relaxed);
        Self { gauges: Arc::clone(gauges), is_running: false }
    }

    /// Records whether the sequence runs.
    pub(crate) fn set_running(&mut self, running: bool) {
        self.gauge().fetch_sub(1, Ordering::Relaxed);
        self.is_running = running;
        self.gauge().fetch_add(1, Ordering::Relaxed);
    }

    fn gauge(&self) -> &AtomicI64 {
        if self.is_running { &self.gauges.running } else { &self.gauges.waiting }
    }
}

impl Drop for SequenceGauge {
    fn drop(&mut self) {
        self.gauge().fetch_sub(1, Ordering::Relaxed);
    }
}
