//! Which keys wait, run or are delayed, and in which order they are taken.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    time::Duration,
};

use tokio::time::Instant;

/// While keys of both priorities wait, every fourth key that is taken is a background key, so that none waits forever.
const BACKGROUND_SHARE: u64 = 4;

/// The priority of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Priority {
    /// A change that concerns this key.
    Change,
    /// The key is one of many that are checked again: after a start, after a failure, or because an object has changed that
    /// many services depend on.
    Background,
}

/// A key that is ready.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadyKey {
    since: Instant,
    priority: Priority,
    /// Its position among the keys of its priority.
    ticket: u64,
}

/// The failed reconciles of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failures {
    /// The number of failures in a row.
    pub(super) count: u32,
    /// Whether the last failure was a conflict.
    pub(super) is_conflict: bool,
}

/// The keys of a queue.
#[derive(Debug)]
pub(super) struct State<K> {
    /// Keys of the priority [`Priority::Change`], in the order in which they were added.
    changes: BTreeMap<u64, K>,
    /// Keys of the priority [`Priority::Background`], likewise.
    background: BTreeMap<u64, K>,
    /// The keys in `changes` and `background`.
    pub(super) waiting: HashMap<K, ReadyKey>,
    /// The keys that are being reconciled, and since when.
    pub(super) running: HashMap<K, Instant>,
    /// Keys that were added while they were running.
    pub(super) again: HashMap<K, Priority>,
    /// The keys that wait for a retry, by its time. The number tells keys apart whose retries are due at the same moment.
    pub(super) delayed: BTreeMap<(Instant, u64), K>,
    /// The place of each key in `delayed`.
    due: HashMap<K, (Instant, u64)>,
    pub(super) failures: HashMap<K, Failures>,
    /// The last number that was given to a key.
    sequence: u64,
    /// The number of keys taken so far.
    taken: u64,
    /// Whether the caches are being filled. Then every object is new to this process, so a watch event does not mean that an
    /// object has changed.
    pub(super) is_starting: bool,
    /// Whether the queue ignores keys.
    pub(super) closed: bool,
}

// === impl State ===

impl<K: Clone + Eq + Hash> State<K> {
    /// Creates the state while the caches are being filled.
    pub(super) fn new() -> Self {
        Self {
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
        }
    }

    /// Adds a key. Returns whether the key is new in the queue.
    pub(super) fn add(&mut self, key: K, priority: Priority) -> bool {
        if self.closed {
            return false;
        }
        // A change ends the wait for a retry, because it may be what the next attempt needs to succeed.
        if let Some(at) = self.due.remove(&key) {
            self.delayed.remove(&at);
        }
        // Two workers must not reconcile one key at the same time, so the key waits until `Queue::done`.
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
            // The key moves to the end of the higher priority, but its wait is measured from when it was first added.
            self.of_priority(known.priority).remove(&known.ticket);
        }
        self.sequence += 1;
        let ticket = self.sequence;
        let since = known.map_or_else(Instant::now, |known| known.since);
        self.waiting.insert(key.clone(), ReadyKey { since, priority, ticket });
        self.of_priority(priority).insert(ticket, key);
        known.is_none()
    }

    fn of_priority(&mut self, priority: Priority) -> &mut BTreeMap<u64, K> {
        match priority {
            Priority::Change => &mut self.changes,
            Priority::Background => &mut self.background,
        }
    }

    pub(super) fn delay(&mut self, key: K, until: Instant) {
        self.sequence += 1;
        let slot = (until, self.sequence);
        self.delayed.insert(slot, key.clone());
        self.due.insert(key, slot);
    }

    /// Makes the keys ready whose delay is over.
    pub(super) fn take_due(&mut self, now: Instant) {
        while let Some((slot, key)) = self.delayed.first_key_value() {
            if slot.0 > now {
                break;
            }
            let (slot, key) = (*slot, key.clone());
            // A conflict is over once the caches have caught up, so its retry keeps its priority. A key that failed must not
            // overtake keys that have changed.
            let is_conflict = self.failures.get(&key).is_some_and(|failures| failures.is_conflict);
            let priority = if is_conflict { Priority::Change } else { Priority::Background };
            self.delayed.remove(&slot);
            self.due.remove(&key);
            self.add(key, priority);
        }
    }

    /// Takes the next key. Returns it and how long it has waited.
    pub(super) fn take(&mut self, now: Instant) -> Option<(K, Duration)> {
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
