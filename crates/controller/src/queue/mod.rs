//! The work queue.

mod state;
#[cfg(test)]
mod tests;

use std::{hash::Hash, time::Duration};

use parking_lot::Mutex;
use prometheus_client::metrics::{counter::Counter, histogram::Histogram};
use tokio::{sync::Notify, time::Instant};

use state::{Failures, Priority, State};

/// The delay before the first retry. A conflict is over as soon as the watch has caught up.
const FIRST_DELAY: Duration = Duration::from_millis(20);
/// The longest delay between two retries.
const MAX_RETRY_DELAY: Duration = Duration::from_mins(5);

/// The keys to reconcile. A key that is added several times is reconciled once, and never by two workers at the same time. If
/// it is added while it is reconciled, it is reconciled again. The queue never holds a key twice, so its size is bounded.
///
/// Keys have one of two priorities, so that a new service does not wait for thousands of services that are only checked
/// again.
#[derive(Debug)]
pub(crate) struct Queue<K> {
    state: Mutex<State<K>>,
    wake: Notify,
    stats: QueueStats,
}

/// The metrics of a queue.
#[derive(Clone, Debug)]
pub(crate) struct QueueStats {
    /// Keys that were added.
    pub(crate) adds: Counter,
    /// Keys that are tried again after a failure.
    pub(crate) retries: Counter,
    /// Seconds that keys waited.
    pub(crate) waited: Histogram,
    /// Seconds that keys were worked on.
    pub(crate) worked: Histogram,
}

/// The state of a queue at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    /// Keys that are ready to be reconciled.
    pub(crate) waiting: usize,
    /// The time that all running reconciles have taken so far, added up.
    pub(crate) unfinished: Duration,
    /// The time that the longest running reconcile has taken so far.
    pub(crate) longest: Duration,
}

/// The result of a reconcile, for the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReconcileOutcome {
    /// Complete, until something changes.
    Settled,
    /// Another writer changed an object at the same time. The key is retried soon, with the same priority.
    Conflict,
    /// Failed. The key is retried with background priority, after a delay that grows with each failure in a row.
    Failed,
}

// === impl Queue ===

impl<K: Clone + Eq + Hash> Queue<K> {
    pub(crate) fn new(stats: QueueStats) -> Self {
        Self { state: Mutex::new(State::new()), wake: Notify::new(), stats }
    }

    /// Ignores all keys until [`Queue::open`]. Without workers, keys would pile up.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
    }

    /// Accepts keys again. Keys that were added since [`Queue::close`] are lost.
    pub(crate) fn open(&self) {
        self.state.lock().closed = false;
    }

    /// The caches are filled. From now on, a watch event means that an object has changed.
    pub(crate) fn start(&self) {
        self.state.lock().is_starting = false;
    }

    /// Adds a key because of a change that concerns it. A delayed retry becomes ready now. A key whose last reconcile failed
    /// gets background priority.
    pub(crate) fn add(&self, key: K) {
        let priority = {
            // The lock is released before the key is added. A failure in between gives one key a priority that is too high.
            let state = self.state.lock();
            let has_failed = state.failures.get(&key).is_some_and(|failures| !failures.is_conflict);
            if has_failed || state.is_starting { Priority::Background } else { Priority::Change }
        };
        self.add_with(key, priority);
    }

    /// Adds a key whose own object is new or has changed, so that earlier failures no longer count.
    pub(crate) fn add_changed(&self, key: K) {
        self.state.lock().failures.remove(&key);
        self.add_with(key, Priority::Change);
    }

    /// Adds one of many keys that are checked again at the same time.
    pub(crate) fn add_background(&self, key: K) {
        self.add_with(key, Priority::Background);
    }

    fn add_with(&self, key: K, priority: Priority) {
        if self.state.lock().add(key, priority) {
            self.stats.adds.inc();
        }
        self.wake.notify_one();
    }

    /// The key whose reconcile has run longest, and for how long.
    pub(crate) fn longest(&self) -> Option<(K, Duration)> {
        let state = self.state.lock();
        let (key, since) = state.running.iter().min_by_key(|(_, since)| **since)?;
        Some((key.clone(), since.elapsed()))
    }

    /// The state of the queue at this moment.
    pub(crate) fn load(&self) -> Load {
        let (state, now) = (self.state.lock(), Instant::now());
        let elapsed = || state.running.values().map(|since| now.saturating_duration_since(*since));
        Load {
            waiting: state.waiting.len(),
            unfinished: elapsed().sum(),
            longest: elapsed().max().unwrap_or_default(),
        }
    }

    /// Waits for the next key to reconcile. The caller calls [`Queue::done`] afterwards.
    pub(crate) async fn next(&self) -> K {
        loop {
            // A key that is added after the check below leaves a permit in `wake`, so the wait ends at once.
            let notified = self.wake.notified();
            let next_due = {
                let mut state = self.state.lock();
                let now = Instant::now();
                state.take_due(now);
                if let Some((key, waited)) = state.take(now) {
                    self.stats.waited.observe(waited.as_secs_f64());
                    // `Notify` stores one permit, however many keys were added, so each worker wakes the next one.
                    if !state.waiting.is_empty() {
                        self.wake.notify_one();
                    }
                    return key;
                }
                state.delayed.keys().next().map(|(at, _)| *at)
            };
            match next_due {
                Some(at) => {
                    // The loop handles whichever comes first.
                    let _ = tokio::time::timeout_at(at, notified).await;
                }
                None => notified.await,
            }
        }
    }

    /// Records the result of a reconcile. `jitter` in 0..1 spreads retries.
    pub(crate) fn done(&self, key: K, ended: ReconcileOutcome, jitter: f64) {
        let mut state = self.state.lock();
        let now = Instant::now();
        if let Some(since) = state.running.remove(&key) {
            self.stats.worked.observe(now.saturating_duration_since(since).as_secs_f64());
        }
        // The reconcile may have read the caches before that change, so the key must run again.
        let again = state.again.remove(&key);
        match ended {
            ReconcileOutcome::Settled => {
                state.failures.remove(&key);
                if let Some(priority) = again {
                    state.add(key, priority);
                }
            }
            ReconcileOutcome::Conflict | ReconcileOutcome::Failed => {
                let is_conflict = ended == ReconcileOutcome::Conflict;
                let count = state.failures.get(&key).map_or(1, |failures| failures.count.saturating_add(1));
                state.failures.insert(key.clone(), Failures { count, is_conflict });
                self.stats.retries.inc();
                match again {
                    Some(priority) if is_conflict => drop(state.add(key, priority)),
                    // Something has changed, so the retry need not wait for its delay. It still comes after keys that did
                    // not fail.
                    Some(_) => drop(state.add(key, Priority::Background)),
                    None => state.delay(key, now + delay_after(count, jitter)),
                }
            }
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Forgets the failures of a key.
    pub(crate) fn forget(&self, key: &K) {
        self.state.lock().failures.remove(key);
    }
}

/// Returns the delay, which doubles with each failure in a row. The jitter shortens it by up to a quarter.
fn delay_after(failures: u32, jitter: f64) -> Duration {
    // A shift by 32 or more has no result, and such a delay is far beyond the maximum.
    let doubled = FIRST_DELAY.saturating_mul(1_u32.checked_shl(failures - 1).unwrap_or(u32::MAX));
    doubled.min(MAX_RETRY_DELAY).mul_f64(1.0 - 0.25 * jitter.clamp(0.0, 1.0))
}
