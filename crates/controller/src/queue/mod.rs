//! The work queue.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    time::Duration,
};

use parking_lot::Mutex;
use prometheus_client::metrics::{counter::Counter, histogram::Histogram};
use tokio::{sync::Notify, time::Instant};

/// The delay before the first retry. A conflict is over as soon as the watch has caught up.
const FIRST_DELAY: Duration = Duration::from_millis(20);
/// The longest delay between two retries.
const LONGEST_DELAY: Duration = Duration::from_mins(5);
/// While keys of both priorities wait, every fourth key that is taken is a background key, so that none waits forever.
const BACKGROUND_SHARE: u64 = 4;

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

/// The priority of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Priority {
    /// A change that concerns this key.
    Change,
    /// The key is one of many that are checked again: after a start, after a failure, or because an object has changed that
    /// many services depend on.
    Background,
}

/// A key that is ready.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    since: Instant,
    priority: Priority,
    /// Its position among the keys of its priority.
    ticket: u64,
}

/// The failed reconciles of a key.
#[derive(Clone, Copy, Debug)]
struct Failures {
    /// The number of failures in a row.
    count: u32,
    /// Whether the last failure was a conflict.
    is_conflict: bool,
}

#[derive(Debug)]
struct State<K> {
    /// Keys of the priority [`Priority::Change`], in the order in which they were added.
    changes: BTreeMap<u64, K>,
    /// Keys of the priority [`Priority::Background`], likewise.
    background: BTreeMap<u64, K>,
    /// The keys in `changes` and `background`.
    waiting: HashMap<K, Waiting>,
    /// The keys that are being reconciled, and since when.
    running: HashMap<K, Instant>,
    /// Keys that were added while they were running.
    again: HashMap<K, Priority>,
    delayed: BTreeMap<(Instant, u64), K>,
    due: HashMap<K, (Instant, u64)>,
    failures: HashMap<K, Failures>,
    sequence: u64,
    /// The number of keys taken so far.
    taken: u64,
    /// Whether the caches are being filled. Then every object is new to this process, so a watch event does not mean that an
    /// object has changed.
    is_starting: bool,
    /// Whether the queue ignores keys.
    closed: bool,
}

/// The result of a reconcile, for the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Complete, until something changes.
    Settled,
    /// Another writer changed an object at the same time. The key is retried soon, with the same priority.
    Conflict,
    /// Failed. The key is retried with background priority, after a delay that grows with each failure in a row.
    Failed,
}

// === impl Queue ===

impl<K: Clone + Eq + Hash> Queue<K> {
    pub(crate) fn new(counted: QueueStats) -> Self {
        let state = State {
            changes: BTreeMap::new(),
            background: BTreeMap::new(),
            waiting: HashMap::new(),
            running: HashMap::new(),
            again: HashMap::new(),
            delayed: BTreeMap::new(),
            due: HashMap::new(),
            failures: HashMap::new(),
            sequence: 0,
            taken: 0,
            is_starting: true,
            closed: false,
        };
        Self { state: Mutex::new(state), wake: Notify::new(), stats: counted }
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
        let taken = || state.running.values().map(|since| now.saturating_duration_since(*since));
        Load {
            waiting: state.waiting.len(),
            unfinished: taken().sum(),
            longest: taken().max().unwrap_or_default(),
        }
    }

    /// Waits for the next key to reconcile. The caller calls [`Queue::done`] afterwards.
    pub(crate) async fn next(&self) -> K {
        loop {
            let notified = self.wake.notified();
            let next_due = {
                let mut state = self.state.lock();
                let now = Instant::now();
                state.take_due(now);
                if let Some((key, waited)) = state.take(now) {
                    self.stats.waited.observe(waited.as_secs_f64());
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
    pub(crate) fn done(&self, key: K, ended: Ended, jitter: f64) {
        let mut state = self.state.lock();
        let now = Instant::now();
        if let Some(since) = state.running.remove(&key) {
            self.stats.worked.observe(now.saturating_duration_since(since).as_secs_f64());
        }
        let again = state.again.remove(&key);
        match ended {
            Ended::Settled => {
                state.failures.remove(&key);
                if let Some(priority) = again {
                    state.add(key, priority);
                }
            }
            Ended::Conflict | Ended::Failed => {
                let is_conflict = ended == Ended::Conflict;
                let count = state.failures.get(&key).map_or(1, |failures| failures.count.saturating_add(1));
                state.failures.insert(key.clone(), Failures { count, is_conflict });
                self.stats.retries.inc();
                match again {
                    Some(priority) if is_conflict => drop(state.add(key, priority)),
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
    let doubled = FIRST_DELAY.saturating_mul(1_u32.checked_shl(failures - 1).unwrap_or(u32::MAX));
    doubled.min(LONGEST_DELAY).mul_f64(1.0 - 0.25 * jitter.clamp(0.0, 1.0))
}

// === impl State ===

impl<K: Clone + Eq + Hash> State<K> {
    /// Adds a key. Returns whether the key is new in the queue.
    fn add(&mut self, key: K, priority: Priority) -> bool {
        if self.closed {
            return false;
        }
        if let Some(at) = self.due.remove(&key) {
            self.delayed.remove(&at);
        }
        if self.running.contains_key(&key) {
            let known = self.again.get(&key).copied();
            self.again.insert(key, known.map_or(priority, |known| known.min(priority)));
            return known.is_none();
        }
        let known = self.waiting.get(&key).copied();
        if known.is_some_and(|known| known.priority <= priority) {
            return false;
        }
        if let Some(known) = known {
            self.of_priority(known.priority).remove(&known.ticket);
        }
        self.sequence += 1;
        let ticket = self.sequence;
        let since = known.map_or_else(Instant::now, |known| known.since);
        self.waiting.insert(key.clone(), Waiting { since, priority, ticket });
        self.of_priority(priority).insert(ticket, key);
        known.is_none()
    }

    fn of_priority(&mut self, priority: Priority) -> &mut BTreeMap<u64, K> {
        match priority {
            Priority::Change => &mut self.changes,
            Priority::Background => &mut self.background,
        }
    }

    fn delay(&mut self, key: K, until: Instant) {
        self.sequence += 1;
        let slot = (until, self.sequence);
        self.delayed.insert(slot, key.clone());
        self.due.insert(key, slot);
    }

    /// Makes the keys ready whose delay is over.
    fn take_due(&mut self, now: Instant) {
        while let Some((slot, key)) = self.delayed.first_key_value() {
            if slot.0 > now {
                break;
            }
            let (slot, key) = (*slot, key.clone());
            let is_conflict = self.failures.get(&key).is_some_and(|failures| failures.is_conflict);
            let priority = if is_conflict { Priority::Change } else { Priority::Background };
            self.delayed.remove(&slot);
            self.due.remove(&key);
            self.add(key, priority);
        }
    }

    /// Takes the next key. Returns it and how long it has waited.
    fn take(&mut self, now: Instant) -> Option<(K, Duration)> {
        let is_turn = (self.taken + 1).is_multiple_of(BACKGROUND_SHARE);
        let priority = match (self.changes.is_empty(), self.background.is_empty()) {
            (true, true) => return None,
            (false, false) if is_turn => Priority::Background,
            (false, _) => Priority::Change,
            (true, false) => Priority::Background,
        };
        let (_, key) = self.of_priority(priority).pop_first()?;
        self.taken += 1;
        let since = self.waiting.remove(&key).map_or(now, |waiting| waiting.since);
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

    fn queue<K: Clone + Eq + std::hash::Hash>() -> Queue<K> {
        let queue = Queue::new(Metrics::new().queue(Worker::Services));
        queue.start();
        queue
    }

    /// How many other keys are taken before this one. All of them fail.
    async fn others_before(queue: &Queue<u32>, wanted: u32) -> usize {
        let mut others = 0;
        loop {
            let key = queue.next().await;
            if key == wanted {
                return others;
            }
            others += 1;
            queue.done(key, Ended::Failed, 0.0);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_key_does_not_wait_for_thousands_that_are_looked_at_again_or_that_fail() {
        let queue = queue();
        for key in 1..=2800 {
            queue.add_background(key);
        }
        queue.add(0);
        assert!(others_before(&queue, 0).await <= 1, "after a start");
        queue.done(0, Ended::Settled, 0.0);
        // All of them fail, and are due to be tried again at the same time.
        for _ in 0..2800 {
            let key = queue.next().await;
            queue.done(key, Ended::Failed, 0.0);
        }
        tokio::time::advance(Duration::from_hours(1)).await;
        queue.add(0);
        assert!(others_before(&queue, 0).await <= 1, "among retries");
        queue.done(0, Ended::Settled, 0.0);
        // A change event of a key that fails does not move it ahead, unless the object itself was changed.
        tokio::time::advance(Duration::from_hours(1)).await;
        for key in 1..=2800 {
            queue.add(key);
        }
        queue.add(0);
        assert!(others_before(&queue, 0).await <= 1, "among change events of failing keys");
        queue.done(0, Ended::Settled, 0.0);
        queue.add_changed(2800);
        assert!(others_before(&queue, 2800).await <= 1, "the one that was mended");
    }

    #[tokio::test(start_paused = true)]
    async fn a_conflict_leaves_a_key_among_the_changes() {
        let queue = queue();
        for key in 1..=100 {
            queue.add_background(key);
        }
        queue.add(0);
        others_before(&queue, 0).await;
        queue.done(0, Ended::Conflict, 0.0);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(others_before(&queue, 0).await <= 1);
    }

    #[tokio::test(start_paused = true)]
    async fn changes_without_end_do_not_starve_the_background() {
        let queue = queue();
        queue.add_background(0);
        for key in 1..=100 {
            queue.add(key);
        }
        assert!(others_before(&queue, 0).await <= 4);
    }

    #[tokio::test(start_paused = true)]
    async fn until_the_caches_are_filled_only_objects_that_changed_themselves_come_first() {
        let queue = Queue::new(Metrics::new().queue(Worker::Services));
        for key in 1..=100 {
            queue.add(key);
        }
        queue.add_changed(0);
        queue.start();
        assert!(others_before(&queue, 0).await <= 1);
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
