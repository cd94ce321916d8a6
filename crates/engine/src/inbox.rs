//! The way of requests to the thread that computes.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use longboat_serving::Refusal;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::{Args, LoadError};

/// The requests that wait for the computing thread, with the threads that compute.
pub(crate) struct Inbox<T> {
    sender: SyncSender<T>,
    /// Held because the threads end when it is dropped.
    _threads: ThreadPool,
}

// === impl Inbox ===

impl<T: Send + 'static> Inbox<T> {
    /// Starts the threads, and a queue with this many places. One of the threads takes the requests, until the inbox is dropped;
    /// the others compute parts of its forward passes.
    pub(crate) fn new(
        args: &Args,
        places: usize,
        work: impl FnOnce(&Receiver<T>) + Send + 'static,
    ) -> Result<Self, LoadError> {
        let (sender, requests) = sync_channel(places);
        let threads = ThreadPoolBuilder::new()
            .num_threads(args.threads())
            .thread_name(|number| format!("engine-{number}"))
            .build()?;
        threads.spawn(move || work(&requests));
        Ok(Self { sender, _threads: threads })
    }

    /// Puts a request into the queue, or refuses it.
    pub(crate) fn send(&self, request: T) -> Result<(), Refusal> {
        self.sender.try_send(request).map_err(|error| match error {
            TrySendError::Full(_) => Refusal::queue_full(),
            TrySendError::Disconnected(_) => Refusal::overloaded("The engine has ended."),
        })
    }
}
