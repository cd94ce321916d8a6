//! Requests that wait a moment for others with their prompt, to be given endpoints together.
//!
//! There is no task behind a window: whoever is first polled after its end closes it for all.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use longboat_scheduler::{Burst, BurstSettings, Slot, Snapshot};
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep};

/// Gathers requests, one window after the other.
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

/// A request in a window. To drop it is to wait no more.
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

    /// Takes a request into the window that is open, or opens one. `None`: the window is full.
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
    /// The endpoint of the request, once its window is over; nothing if it shares its prompt with nobody.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Slot>> {
        if Instant::now() < self.window.ends {
            ready!(self.timer.as_mut().poll(context));
        }
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
