//! What the requests of the page share.

use std::sync::Arc;

use http::StatusCode;
use kube::Client;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::{Cluster, Reach, answer::Problem, guard::Guard};

/// The most open pages, and the most chats.
const MAX_STREAMS: usize = 16;
/// The most other requests at a time; further requests are refused.
const MAX_REQUESTS: usize = 8;

/// The state that all requests share.
pub(crate) struct Page {
    pub(crate) cluster: Arc<dyn Cluster>,
    pub(crate) client: Client,
    pub(crate) reach: Reach,
    pub(crate) shutdown: CancellationToken,
    pub(crate) guard: Guard,
    /// The client for chats, unless pods are reached directly.
    pub(crate) http: reqwest::Client,
    streams: Arc<Semaphore>,
    work: Arc<Semaphore>,
    simulation: Arc<Semaphore>,
}

// === impl Page ===

impl Page {
    pub(crate) fn new(
        cluster: Arc<dyn Cluster>,
        client: Client,
        reach: Reach,
        guard: Guard,
        http: reqwest::Client,
        shutdown: CancellationToken,
    ) -> Self {
        let [streams, work, simulation] =
            [MAX_STREAMS, MAX_REQUESTS, 1].map(|most| Arc::new(Semaphore::new(most)));
        Self { cluster, client, reach, shutdown, guard, http, streams, work, simulation }
    }

    /// Acquires a permit for a request.
    pub(crate) fn work(&self) -> Result<OwnedSemaphorePermit, Problem> {
        permit(&self.work)
    }

    /// Acquires the permit for a simulation. Each takes a core for a while, so there is one.
    pub(crate) fn simulation(&self) -> Result<OwnedSemaphorePermit, Problem> {
        permit(&self.simulation)
    }

    /// Acquires a permit for a stream.
    pub(crate) fn stream(&self) -> Result<OwnedSemaphorePermit, Problem> {
        permit(&self.streams)
    }
}

fn permit(semaphore: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Problem> {
    Arc::clone(semaphore).try_acquire_owned().map_err(|_| Problem {
        status: StatusCode::SERVICE_UNAVAILABLE,
        sentence: "too many requests of this page are running; try again".into(),
    })
}
