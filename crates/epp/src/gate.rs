//! The hand-off between waiting requests and free room in the pool. Requests arrive and end on many threads, and any of these
//! threads may admit a waiting request.
//!
//! `tests/interleavings.rs` compiles this file with the types of a model checker in `crate::sync`.

use longboat_scheduler::flow::{Arrival, Queue, Settings, Ticket};

use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering};

/// The waiting requests, and the number of admitted requests that are not in flight yet.
#[derive(Debug)]
pub(crate) struct Gate<T> {
    queue: Mutex<Queue<T>>,
    admitted: Arc<AtomicU64>,
    closed: AtomicBool,
}

/// Counts a request as admitted until the permit is dropped.
#[derive(Debug)]
pub(crate) struct Permit(Arc<AtomicU64>);

/// The reason why a request cannot wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EnqueueError {
    /// The gate is closed.
    Closed,
    /// A limit is reached.
    Full,
}

/// The next waiting request.
#[derive(Debug)]
pub(crate) enum Next<T> {
    /// No request waits.
    Empty,
    /// The pool has no room for the waiting requests.
    Saturated,
    /// This request is admitted.
    Admitted(T, Permit),
}

impl Permit {
    fn new(count: &Arc<AtomicU64>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // Relaxed is enough: the request is in flight by now, and who adds up both counts holds the lock of the state meanwhile.
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

    /// Admits a request that need not wait.
    pub(crate) fn pass(&self) -> Permit {
        Permit::new(&self.admitted)
    }

    /// Returns the number of admitted requests that are not in flight yet.
    pub(crate) fn admitted(&self) -> u64 {
        self.admitted.load(Ordering::Relaxed)
    }

    /// Adds a request.
    pub(crate) fn push(&self, arrival: Arrival<'_>, item: T, now: u64) -> Result<Ticket, EnqueueError> {
        let mut queue = self.queue.lock();
        // This check is made under the lock, so no request is added after `close` has emptied the queue.
        if self.closed.load(Ordering::Acquire) {
            return Err(EnqueueError::Closed);
        }
        queue.push(arrival, item, now).map_err(|_| EnqueueError::Full)
    }

    /// Takes the next request for which there is room. `saturation` is called under the lock, and the request counts as admitted before the
    /// lock is released. So each admission counts before the next one is decided.
    pub(crate) fn next(&self, saturation: impl FnOnce() -> f64, now: u64) -> Next<T> {
        let mut queue = self.queue.lock();
        if queue.is_empty() {
            return Next::Empty;
        }
        match queue.pop(saturation(), now) {
            Some(item) => Next::Admitted(item, Permit::new(&self.admitted)),
            None => Next::Saturated,
        }
    }

    /// Removes a request that no longer wants to wait. Returns `None` if it was already admitted or refused.
    pub(crate) fn cancel(&self, ticket: Ticket) -> Option<T> {
        self.queue.lock().cancel(ticket)
    }

    /// Takes a request that has waited too long.
    pub(crate) fn expired(&self, now: u64, has_endpoints: bool) -> Option<T> {
        self.queue.lock().expired(now, has_endpoints)
    }

    /// Refuses further requests, and calls `take` for each waiting request.
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

    /// Reads or changes the queue under its lock.
    pub(crate) fn with<R>(&self, change: impl FnOnce(&mut Queue<T>) -> R) -> R {
        change(&mut self.queue.lock())
    }
}
