//! What is to be worked on next.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    hash::Hash,
    time::Duration,
};

use parking_lot::Mutex;
use prometheus_client::metrics::{counter::Counter, histogram::Histogram};
use tokio::{sync::Notify, time::Instant};

/// Delay before the first retry: a conflict is over as soon as the watch has caught up.
const FIRST_DELAY: Duration = Duration::from_millis(20);
/// Longest delay between two retries.
const LONGEST_DELAY: Duration = Duration::from_mins(5);

/// Keys to work on. A key that is added several times is worked on once; never by two workers at the same time; again
/// when it was added meanwhile. It cannot grow beyond the number of keys.
#[derive(Debug)]
pub(crate) struct Queue<K> {
    state: Mutex<State<K>>,
    wake: Notify,
    stats: QueueStats,
}

/// What is counted on the way.
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

/// What there is to do at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Load {
    /// Keys that wait to be worked on at once.
    pub(crate) waiting: usize,
    /// How long what is being worked on has taken so far, together.
    pub(crate) unfinished: Duration,
    /// How long that has taken so far that has taken longest.
    pub(crate) longest: Duration,
}

#[derive(Debug)]
struct State<K> {
    ready: VecDeque<K>,
    /// The keys in `ready`, since when.
    waiting: HashMap<K, Instant>,
    /// Since when.
    running: HashMap<K, Instant>,
    /// Keys that were added while they were running.
    again: HashSet<K>,
    delayed: BTreeMap<(Instant, u64), K>,
    due: HashMap<K, (Instant, u64)>,
    failures: HashMap<K, u32>,
    sequence: u64,
    /// Whether keys are taken at all.
    closed: bool,
}

/// How work on a key ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Nothing more to do until something changes.
    Settled,
    /// To be tried again, after a delay that grows with each failure in a row.
    Failed,
}

// === impl Queue ===

impl<K: Clone + Eq + Hash> Queue<K> {
    pub(crate) fn new(counted: QueueStats) -> Self {
        let state = State {
            ready: VecDeque::new(),
            waiting: HashMap::new(),
            running: HashMap::new(),
            again: HashSet::new(),
            delayed: BTreeMap::new(),
            due: HashMap::new(),
            failures: HashMap::new(),
            sequence: 0,
            closed: false,
        };
        Self { state: Mutex::new(state), wake: Notify::new(), stats: counted }
    }

    /// Takes no keys until [`Queue::open`]: where nobody works, they would pile up.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
    }

    /// Takes keys again. What was added meanwhile is not known.
    pub(crate) fn open(&self) {
        self.state.lock().closed = false;
    }

    /// Adds a key, to be worked on as soon as possible. What was put off is not any longer: something has changed.
    pub(crate) fn add(&self, key: K) {
        if self.state.lock().add(key) {
            self.stats.adds.inc();
        }
        self.wake.notify_one();
    }

    /// The key that has been worked on for longest, and how long.
    pub(crate) fn longest(&self) -> Option<(K, Duration)> {
        let state = self.state.lock();
        let (key, since) = state.running.iter().min_by_key(|(_, since)| **since)?;
        Some((key.clone(), since.elapsed()))
    }

    /// What there is to do.
    pub(crate) fn load(&self) -> Load {
        let (state, now) = (self.state.lock(), Instant::now());
        let taken = || state.running.values().map(|since| now.saturating_duration_since(*since));
        Load {
            waiting: state.ready.len(),
            unfinished: taken().sum(),
            longest: taken().max().unwrap_or_default(),
        }
    }

    /// The next key to work on; call [`Queue::done`] afterwards.
    pub(crate) async fn next(&self) -> K {
        loop {
            let notified = self.wake.notified();
            let next_due = {
                let mut state = self.state.lock();
                let now = Instant::now();
                state.take_due(now);
                if let Some((key, waited)) = state.take(now) {
                    self.stats.waited.observe(waited.as_secs_f64());
                    if !state.ready.is_empty() {
                        self.wake.notify_one();
                    }
                    return key;
                }
                state.delayed.keys().next().map(|(at, _)| *at)
            };
            match next_due {
                Some(at) => {
                    // Whichever comes first is looked at in the next round.
                    let _ = tokio::time::timeout_at(at, notified).await;
                }
                None => notified.await,
            }
        }
    }

    /// Says how work on a key ended. `jitter` in 0..1 spreads retries.
    pub(crate) fn done(&self, key: K, ended: Ended, jitter: f64) {
        let mut state = self.state.lock();
        let now = Instant::now();
        if let Some(since) = state.running.remove(&key) {
            self.stats.worked.observe(now.saturating_duration_since(since).as_secs_f64());
        }
        match ended {
            Ended::Settled => {
                state.failures.remove(&key);
                if state.again.remove(&key) {
                    state.add(key);
                }
            }
            Ended::Failed => {
                let failures = state.failures.entry(key.clone()).or_default();
                *failures += 1;
                let delay = delay_after(*failures, jitter);
                self.stats.retries.inc();
                if state.again.remove(&key) {
                    state.add(key);
                } else {
                    state.put_off(key, now + delay);
                }
            }
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Forgets how often work on a key failed.
    pub(crate) fn forget(&self, key: &K) {
        self.state.lock().failures.remove(key);
    }
}

/// Doubles with each failure in a row; jitter takes up to a quarter off.
fn delay_after(failures: u32, jitter: f64) -> Duration {
    let doubled = FIRST_DELAY.saturating_mul(1_u32.checked_shl(failures - 1).unwrap_or(u32::MAX));
    doubled.min(LONGEST_DELAY).mul_f64(1.0 - 0.25 * jitter.clamp(0.0, 1.0))
}

// === impl State ===

impl<K: Clone + Eq + Hash> State<K> {
    /// Whether the key was taken and not known yet.
    fn add(&mut self, key: K) -> bool {
        if self.closed {
            return false;
        }
        if let Some(at) = self.due.remove(&key) {
            self.delayed.remove(&at);
        }
        if self.running.contains_key(&key) {
            return self.again.insert(key);
        }
        if self.waiting.contains_key(&key) {
            return false;
        }
        self.waiting.insert(key.clone(), Instant::now());
        self.ready.push_back(key);
        true
    }

    fn put_off(&mut self, key: K, at: Instant) {
        self.sequence += 1;
        let slot = (at, self.sequence);
        self.delayed.insert(slot, key.clone());
        self.due.insert(key, slot);
    }

    fn take_due(&mut self, now: Instant) {
        while let Some((slot, key)) = self.delayed.first_key_value() {
            if slot.0 > now {
                break;
            }
            let key = key.clone();
            self.add(key);
        }
    }

    /// The next key, and how long it has waited.
    fn take(&mut self, now: Instant) -> Option<(K, Duration)> {
        let key = self.ready.pop_front()?;
        let since = self.waiting.remove(&key).unwrap_or(now);
        self.running.insert(key.clone(), now);
        Some((key, now.saturating_duration_since(since)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, timeout};

    use super::{Ended, Load, Queue};
    use crate::metrics::{Metrics, Worker};

    fn queue() -> Queue<&'static str> {
        Queue::new(Metrics::new().queue(Worker::Services))
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_runs_and_fails_is_counted() {
        let queue = queue();
        for key in ["a", "a", "b", "c"] {
            queue.add(key);
        }
        assert_eq!(queue.stats.adds.get(), 3);
        queue.next().await;
        tokio::time::advance(Duration::from_secs(2)).await;
        queue.next().await;
        tokio::time::advance(Duration::from_secs(1)).await;
        let (unfinished, longest) = (Duration::from_secs(4), Duration::from_secs(3));
        assert_eq!(queue.load(), Load { waiting: 1, unfinished, longest });
        queue.done("a", Ended::Settled, 0.0);
        queue.done("b", Ended::Failed, 0.0);
        assert_eq!(queue.load(), Load { waiting: 1, unfinished: Duration::ZERO, longest: Duration::ZERO });
        assert_eq!(queue.stats.retries.get(), 1);
    }

    #[tokio::test]
    async fn a_key_added_twice_is_worked_on_once() {
        let queue = queue();
        queue.add("a");
        queue.add("a");
        queue.add("b");
        assert_eq!(queue.next().await, "a");
        assert_eq!(queue.next().await, "b");
        assert!(timeout(Duration::from_millis(10), queue.next()).await.is_err());
    }

    #[tokio::test]
    async fn a_key_added_while_it_is_worked_on_comes_again_afterwards() {
        let queue = queue();
        queue.add("a");
        assert_eq!(queue.next().await, "a");
        queue.add("a");
        assert!(timeout(Duration::from_millis(10), queue.next()).await.is_err());
        queue.done("a", Ended::Settled, 0.0);
        assert_eq!(queue.next().await, "a");
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_of_changes_is_one_pass_and_one_more_for_what_came_during_it_and_then_nothing_is_polled()
    {
        let queue = queue();
        let burst = || {
            for _ in 0..1000 {
                queue.add("a");
            }
        };
        burst();
        for during in [true, false] {
            assert_eq!(queue.next().await, "a");
            if during {
                burst();
            }
            queue.done("a", Ended::Settled, 0.0);
        }
        assert!(timeout(Duration::from_hours(10_000), queue.next()).await.is_err());
    }

    #[tokio::test]
    async fn a_closed_queue_takes_nothing() {
        let queue = queue();
        queue.close();
        queue.add("a");
        queue.open();
        queue.add("b");
        assert_eq!(queue.next().await, "b");
        assert!(timeout(Duration::from_millis(10), queue.next()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn failures_in_a_row_wait_longer_and_longer() {
        let queue = queue();
        queue.add("a");
        let mut waits = Vec::new();
        for _ in 0..4 {
            let before = Instant::now();
            queue.next().await;
            waits.push(before.elapsed().as_millis());
            queue.done("a", Ended::Failed, 0.0);
        }
        assert_eq!(waits, [0, 20, 40, 80]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_ends_the_wait_of_a_failed_key() {
        let queue = queue();
        queue.add("a");
        for _ in 0..8 {
            queue.next().await;
            queue.done("a", Ended::Failed, 0.0);
        }
        let before = Instant::now();
        queue.add("a");
        queue.next().await;
        assert_eq!(before.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn success_starts_the_count_of_failures_anew() {
        let queue = queue();
        queue.add("a");
        for _ in 0..5 {
            queue.next().await;
            queue.done("a", Ended::Failed, 0.0);
        }
        queue.next().await;
        queue.done("a", Ended::Settled, 0.0);
        queue.add("a");
        queue.next().await;
        queue.done("a", Ended::Failed, 0.0);
        let before = Instant::now();
        queue.next().await;
        assert_eq!(before.elapsed(), Duration::from_millis(20));
    }
}
