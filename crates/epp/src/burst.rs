//! Requests that wait a moment for others with the same prompt, so that endpoints are chosen for all of them together.
//!
//! No task runs a window: the first request that is polled after the window's end closes it for all.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use longboat_scheduler::{Burst, BurstSettings, Slot, Snapshot};
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep};

/// Gathers requests in windows, one after the other.
#[derive(Debug)]
pub(crate) struct Bursts {
    pub(crate) settings: BurstSettings,
    open: Mutex<Option<Arc<Window>>>,
}

#[derive(Debug)]
struct Window {
    ends: Instant,
    burst: Mutex<Burst>,
}

/// A request in a window. Dropping it leaves the window.
pub(crate) struct Seat {
    window: Arc<Window>,
    number: usize,
    timer: Pin<Box<Sleep>>,
}

// === impl Bursts ===

impl Bursts {
    pub(crate) fn new(settings: BurstSettings) -> Self {
        Self { settings, open: Mutex::new(None) }
    }

    /// Adds a request to the open window, or opens a new window. Returns `None` if the window is full.
    pub(crate) fn join(&self, blocks: Vec<u64>, candidates: &[Snapshot]) -> Option<Seat> {
        let mut open = self.open.lock();
        let now = Instant::now();
        let is_open = |window: &&Arc<Window>| now < window.ends && !window.burst.lock().is_placed();
        let window = open.as_ref().filter(is_open).cloned().unwrap_or_else(|| {
            let burst = Mutex::new(Burst::new(self.settings.clone()));
            let window = Arc::new(Window { ends: now + self.settings.window, burst });
            *open = Some(Arc::clone(&window));
            window
        });
        let number = window.burst.lock().join(blocks, candidates)?;
        let timer = Box::pin(tokio::time::sleep_until(window.ends));
        Some(Seat { window, number, timer })
    }
}

// === impl Seat ===

impl Seat {
    /// Ready when the window is over. Returns the endpoint of the request, or `None` if no other request has the same prompt.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Slot>> {
        // A poll after the end need not wait for the timer, which may fire up to a millisecond late.
        if Instant::now() < self.window.ends {
            ready!(self.timer.as_mut().poll(context));
        }
        // The first to come places all. Only the window is locked, never the list of windows with it, as in `join`.
        let mut burst = self.window.burst.lock();
        burst.place();
        Poll::Ready(burst.endpoint(self.number))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.window.burst.lock().leave(self.number);
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").field("number", &self.number).finish_non_exhaustive()
    }
}
