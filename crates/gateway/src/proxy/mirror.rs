//! Copies of requests for other back ends (filter RequestMirror). Their responses are dropped.

use std::{sync::Arc, time::Duration};

use http::request::Parts;
use rand::{Rng, seq::SliceRandom};
use tokio::sync::Semaphore;

use super::{
    upload::{Upload, UploadError},
    upstream::{Failover, Upstream},
};
use crate::route::{Backend, Mirror};

/// The most copies on their way at a time. If there are more, requests are not copied, so that a slow back end for copies
/// costs neither memory nor the requests themselves.
const MAX_COPIES: usize = 1024;

/// How long a back end for copies may take until it begins to answer.
const COPY_TIMEOUT: Duration = Duration::from_secs(30);

/// Sends copies. Clones share the limit.
#[derive(Clone)]
pub(super) struct Mirrors {
    upstream: Arc<Upstream>,
    slots: Arc<Semaphore>,
}

// === impl Mirrors ===

impl Mirrors {
    pub(super) fn new(upstream: Arc<Upstream>) -> Self {
        Self { upstream, slots: Arc::new(Semaphore::new(MAX_COPIES)) }
    }

    /// Returns the same with other connections.
    pub(super) fn over(&self, upstream: Arc<Upstream>) -> Self {
        Self { upstream, slots: self.slots.clone() }
    }

    /// Sends a copy of the request to each mirror, or to a share of them. Reads the body of the request for that. A request whose body
    /// is too long for the buffer is not copied, because a copy must not cost the request.
    pub(super) async fn copy(
        &self,
        mirrors: impl Iterator<Item = &Mirror>,
        head: &Parts,
        upload: &mut Upload,
    ) -> Result<(), UploadError> {
        let chosen = |mirror: &&Mirror| rand::rng().random_range(0..mirror.share.1) < mirror.share.0;
        let chosen: Vec<_> = mirrors.filter(chosen).collect();
        if chosen.is_empty() || !upload.fits() {
            return Ok(());
        }
        upload.read().await?;
        for mirror in chosen {
            let (mut endpoints, link) = match &mirror.backend {
                Backend::Service(service) => (service.endpoints.clone(), service.link.clone()),
                Backend::Pool(pool) => (pool.endpoints.clone(), pool.link.clone()),
            };
            endpoints.shuffle(&mut rand::rng());
            let Ok(slot) = self.slots.clone().try_acquire_owned() else {
                tracing::debug!("Not copying a request: too many copies are on their way.");
                continue;
            };
            let (upstream, head, body) = (self.upstream.clone(), head.clone(), upload.chunks().to_vec());
            // Bounded by the slots and the timeout.
            tokio::spawn(async move {
                let timeout = Some(COPY_TIMEOUT);
                let sent = upstream
                    .send_replayable(&head, &body, endpoints.into_iter(), &link, timeout, Failover::IfSafe)
                    .await;
                if let Err(error) = sent {
                    tracing::debug!(%error, "A copy of a request was not answered.");
                }
                drop(slot);
            });
        }
        Ok(())
    }
}
