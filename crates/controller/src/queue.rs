//! What is to be worked on next.

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    hash::Hash,
    time::Duration,
};

use parking_lot::Mutex;
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
}

#[derive(Debug)]
struct State<K> {
    ready: VecDeque<K>,
    /// The keys in `ready`.
    waiting: HashSet<K>,
    running: HashSet<K>,
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
    pub(crate) fn new() -> Self {
        let state = State {
            ready: VecDeque::new(),
            waiting: HashSet::new(),
            running: HashSet::new(),
            again: HashSet::new(),
            delayed: BTreeMap::new(),
            due: HashMap::new(),
            failures: HashMap::new(),
            sequence: 0,
            closed: false,
        };
        Self { state: Mutex::new(state), wake: Notify::new() }
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
        self.state.lock().add(key);
        self.wake.notify_one();
    }

    /// The next key to work on; call [`Queue::done`] afterwards.
    pub(crate) async fn next(&self) -> K {
        loop {
            let notified = self.wake.notified();
            let next_due = {
                let mut state = self.state.lock();
                state.take_due(Instant::now());
                if let Some(key) = state.take() {
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
        state.running.remove(&key);
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
                if state.again.remove(&key) {
                    state.add(key);
                } else {
                    state.put_off(key, Instant::now() + delay);
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
    fn add(&mut self, key: K) {
        if self.closed {
            return;
        }
        if let Some(at) = self.due.remove(&key) {
            self.delayed.remove(&at);
        }
        if self.running.contains(&key) {
            self.again.insert(key);
        } else if self.waiting.insert(key.clone()) {
            self.ready.push_back(key);
        }
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

    fn take(&mut self) -> Option<K> {
        let key = self.ready.pop_front()?;
        self.waiting.remove(&key);
        self.running.insert(key.clone());
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::{Instant, timeout};

    use super::{Ended, Queue};

    #[tokio::test]
    async fn a_key_added_twice_is_worked_on_once() {
        let queue = Queue::new();
        queue.add("a");
        queue.add("a");
        queue.add("b");
        assert_eq!(queue.next().await, "a");
        assert_eq!(queue.next().await, "b");
        assert!(timeout(Duration::from_millis(10), queue.next()).await.is_err());
    }

    #[tokio::test]
    async fn a_key_added_while_it_is_worked_on_comes_again_afterwards() {
        let queue = Queue::new();
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
        let queue = Queue::new();
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
        let queue = Queue::new();
        queue.close();
        queue.add("a");
        queue.open();
        queue.add("b");
        assert_eq!(queue.next().await, "b");
        assert!(timeout(Duration::from_millis(10), queue.next()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn failures_in_a_row_wait_longer_and_longer() {
        let queue = Queue::new();
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
        let queue = Queue::new();
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
        let queue = Queue::new();
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
