//! The hand-off between requests that wait and whoever finds room for them: requests come and go on many threads, and any of
//! them may be the one that lets another go on.
//!
//! `tests/interleavings.rs` compiles this file with the types of a model checker in `crate::sync`.

use longboat_scheduler::flow::{Arrival, Queue, Settings, Ticket};

use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering};

/// Requests that wait, and how many were let go on and are not in flight yet.
#[derive(Debug)]
pub(crate) struct Gate<T> {
    queue: Mutex<Queue<T>>,
    admitted: Arc<AtomicU64>,
    closed: AtomicBool,
}

/// Counts a request as admitted until the permit is dropped.
#[derive(Debug)]
pub(crate) struct Permit(Arc<AtomicU64>);

/// Why a request may not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The gate is closed.
    Closed,
    /// A limit is reached.
    Full,
}

/// What a look at the queue finds.
#[derive(Debug)]
pub(crate) enum Next<T> {
    /// Nobody waits.
    Nobody,
    /// Those who wait have no room.
    NoRoom,
    /// This one goes on.
    Goes(T, Permit),
}

impl Permit {
    fn new(count: &Arc<AtomicU64>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<T> Gate<T> {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            queue: Mutex::new(Queue::new(settings)),
            admitted: Arc::new(AtomicU64::new(0)),
            closed: AtomicBool::new(false),
        }
    }

    /// Lets a request go on that never has to wait.
    pub(crate) fn pass(&self) -> Permit {
        Permit::new(&self.admitted)
    }

    /// Returns how many requests were let go on and are not in flight yet.
    pub(crate) fn admitted(&self) -> u64 {
        self.admitted.load(Ordering::Relaxed)
    }

    /// Adds a request.
    pub(crate) fn push(&self, arrival: Arrival<'_>, item: T, now: u64) -> Result<Ticket, Refused> {
        let mut queue = self.queue.lock();
        // This check is made under the lock, so no request is added after `close` has emptied the queue.
        if self.closed.load(Ordering::Acquire) {
            return Err(Refused::Closed);
        }
        queue.push(arrival, item, now).map_err(|_| Refused::Full)
    }

    /// Takes the next request that has room. `saturation` is called under the lock, and the request counts as admitted before the
    /// lock is released. So each admission counts before the next one is decided.
    pub(crate) fn next(&self, saturation: impl FnOnce() -> f64, now: u64) -> Next<T> {
        let mut queue = self.queue.lock();
        if queue.is_empty() {
            return Next::Nobody;
        }
        match queue.pop(saturation(), now) {
            Some(item) => Next::Goes(item, Permit::new(&self.admitted)),
            None => Next::NoRoom,
        }
    }

    /// Removes a request that gives up its place. Returns `None` if it has gone on already.
    pub(crate) fn cancel(&self, ticket: Ticket) -> Option<T> {
        self.queue.lock().cancel(ticket)
    }

    /// Takes a request that has waited too long.
    pub(crate) fn expired(&self, now: u64) -> Option<T> {
        self.queue.lock().expired(now)
    }

    /// Refuses requests from now on, and hands over those that wait.
    pub(crate) fn close(&self, mut take: impl FnMut(T)) {
        self.closed.store(true, Ordering::Release);
        loop {
            let next = self.queue.lock().take_any();
            let Some(item) = next else { return };
            take(item);
        }
    }

    /// Whether requests wait.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.lock().is_empty()
    }

    /// Reads or changes what else the queue knows.
    pub(crate) fn with<R>(&self, change: impl FnOnce(&mut Queue<T>) -> R) -> R {
        change(&mut self.queue.lock())
    }
}
