//! Requests that wait while a scaler has taken all endpoints of their back end away. Their number is the metric by which the
//! scaler sees that someone waits.
//!
//! A waiting request is a future of its connection: if the client goes away, the future is dropped and its place is free.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};

use http::{HeaderValue, Response, StatusCode, header, request::Parts};
use longboat_accept::Budget;
use longboat_api::wake_queue;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    answer::{self, refuse},
    authorize,
    body::ProxyBody,
    completion::Completion,
    inference::Pickers,
    upload::{Upload, UploadError},
};
use crate::{
    route::RouteMatch,
    scalable::{BackendName, ScalableBackend, ScaleTarget},
    series::QueueSample,
    tables::SharedTables,
};

/// The most bytes of a model's name in a label: clients choose it.
const MAX_MODEL_BYTES: usize = 128;

/// How often the picker of a pool sees a waiting request. Less often than rates are measured over, so that a rate stays above zero.
const ANNOUNCEMENT_INTERVAL: Duration = Duration::from_secs(30);

/// How many requests wait, and for how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueLimits {
    pub(crate) requests: usize,
    /// Of `requests`, for one back end.
    pub(crate) requests_per_backend: usize,
    /// Bytes of the bodies of all waiting requests.
    pub(crate) bytes: usize,
    /// How long a request waits.
    pub(crate) time: Duration,
    /// `Retry-After` in seconds of a request that may not wait, or not longer.
    pub(crate) retry_after: u32,
}

/// Waiting requests of all back ends.
pub(crate) struct Activator {
    limits: QueueLimits,
    bytes: Arc<Budget>,
    waiting: Mutex<BTreeMap<BackendName, BTreeMap<String, Load>>>,
    tables: SharedTables,
    shutdown: CancellationToken,
}

/// The waiting requests for one model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Load {
    requests: usize,
    bytes: usize,
}

/// The place of a waiting request.
struct Ticket<'a> {
    activator: &'a Activator,
    backend: BackendName,
    model: String,
    bytes: usize,
}

/// A waiting request, as far as waiting needs it.
pub(super) struct QueueEntry<'a> {
    pub(super) head: &'a Parts,
    pub(super) upload: &'a mut Upload,
    /// The socket in whose table the route is.
    pub(super) socket: SocketAddr,
    /// Chooses the back end by weight, now and in later tables.
    pub(super) pick: u32,
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self {
            requests: 1024,
            requests_per_backend: wake_queue::MAX_REQUESTS,
            bytes: 128 << 20,
            time: wake_queue::TIMEOUT,
            retry_after: 10,
        }
    }
}

// === impl Activator ===

impl Activator {
    pub(crate) fn new(tables: SharedTables, limits: QueueLimits, shutdown: CancellationToken) -> Self {
        let bytes = Budget::new(limits.bytes);
        Self { limits, bytes, waiting: Mutex::default(), tables, shutdown }
    }

    /// Waits while the back end of a request has no endpoint because a scaler may set its workload to zero. Returns the rule to
    /// follow, from newer tables if the request has waited, and whether it has.
    ///
    /// As behind Envoy, the picker of a pool sees requests for which there is no endpoint, because scalers read its counters.
    pub(super) async fn wait(
        &self,
        found: RouteMatch,
        mut waiting: QueueEntry<'_>,
        pickers: &Pickers,
    ) -> Result<(RouteMatch, bool), Box<Response<ProxyBody>>> {
        let Some(idle) = found.idle(waiting.pick) else { return Ok((found, false)) };
        let Some(mut ticket) = self.enter(&idle) else {
            waiting.upload.discard().await;
            return Err(Box::new(self.refusal(&idle, "and too many requests wait for them")));
        };
        // Other requests need no room for this future.
        let endpoint = Box::pin(self.endpoint(&mut waiting, &mut ticket, pickers));
        let begun = tokio::time::timeout(self.limits.time, endpoint).await;
        match begun {
            Ok(Ok(found)) => Ok((found, true)),
            Ok(Err(response)) => Err(response),
            Err(_) => {
                let seconds = self.limits.time.as_secs();
                Err(Box::new(self.refusal(&idle, &format!("and none has started within {seconds} s"))))
            }
        }
    }

    /// Waits for an endpoint. The whole body is read first, because only then does hyper notice that a client goes away.
    async fn endpoint(
        &self,
        waiting: &mut QueueEntry<'_>,
        ticket: &mut Ticket<'_>,
        pickers: &Pickers,
    ) -> Result<RouteMatch, Box<Response<ProxyBody>>> {
        let QueueEntry { head, upload, socket, pick } = waiting;
        let reading = async {
            upload.charge(&self.bytes)?;
            upload.read().await
        };
        if let Err(error) = reading.await {
            if matches!(error, UploadError::Full) {
                upload.discard().await;
                return Err(Box::new(
                    self.unavailable("the bodies of waiting requests exceed the memory limit"),
                ));
            }
            return Err(Box::new(answer::refused(&error, upload).await));
        }
        // Only now, because the name of the model is in the body.
        ticket.describe(upload);
        let mut announcement = Instant::now();
        loop {
            // Loaded before it is looked at: a change in between has cancelled these tables, so nothing is missed.
            let tables = self.tables.load_full();
            let Some(found) = tables.on(*socket).find(head) else {
                let message = format!("no HTTPRoute matches {} any longer", head.uri.path());
                return Err(Box::new(refuse(StatusCode::NOT_FOUND, &message)));
            };
            if found.idle(*pick).is_none() {
                return Ok(found);
            }
            tokio::select! {
                () = tables.replaced() => {}
                () = tokio::time::sleep_until(announcement) => {
                    if let Some((pool, mut head)) = found.pool(*pick, head) {
                        authorize::strip(&mut head);
                        pickers.announce(pool, &head, upload).await;
                    }
                    announcement = Instant::now() + ANNOUNCEMENT_INTERVAL;
                }
                () = self.shutdown.cancelled() => {
                    return Err(Box::new(self.unavailable("the gateway is shutting down")));
                }
            }
        }
    }

    fn enter(&self, backend: &ScalableBackend) -> Option<Ticket<'_>> {
        let mut waiting = self.waiting.lock();
        let count = |loads: &BTreeMap<String, Load>| loads.values().map(|load| load.requests).sum::<usize>();
        let own = waiting.get(&backend.name).map_or(0, count);
        if own >= self.limits.requests_per_backend
            || waiting.values().map(count).sum::<usize>() >= self.limits.requests
        {
            return None;
        }
        let ticket =
            Ticket { activator: self, backend: backend.name.clone(), model: String::new(), bytes: 0 };
        waiting.entry(backend.name.clone()).or_default().entry(String::new()).or_default().requests += 1;
        Some(ticket)
    }

    fn refusal(&self, backend: &ScalableBackend, reason: &str) -> Response<ProxyBody> {
        self.unavailable(&format!("{} has no endpoints, {reason}", backend.name))
    }

    fn unavailable(&self, message: &str) -> Response<ProxyBody> {
        let mut response = refuse(StatusCode::SERVICE_UNAVAILABLE, message);
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(self.limits.retry_after));
        response
    }

    /// The series of all back ends for which requests may wait, zero if none does, so that a scaler never misses a metric.
    pub(crate) fn samples(&self) -> Vec<QueueSample> {
        let tables = self.tables.load();
        let scalable = tables.scalable().iter();
        self.samples_of(scalable.map(|backend| &backend.name))
    }

    /// The series of the back ends whose pods come from this workload.
    pub(crate) fn samples_for(&self, target: &ScaleTarget) -> Vec<QueueSample> {
        let tables = self.tables.load();
        let scalable = tables.scalable().iter().filter(|backend| backend.targets.contains(target));
        self.samples_of(scalable.map(|backend| &backend.name))
    }

    fn samples_of<'a>(&self, backends: impl Iterator<Item = &'a BackendName>) -> Vec<QueueSample> {
        let waiting = self.waiting.lock();
        let mut samples = Vec::new();
        for backend in backends {
            let none = BTreeMap::from([(String::new(), Load::default())]);
            for (model, load) in waiting.get(backend).unwrap_or(&none) {
                let mut labels = vec![
                    ("namespace", backend.key.namespace.to_string()),
                    (
                        if backend.is_pool { "inference_pool" } else { "service" },
                        backend.key.name.to_string(),
                    ),
                ];
                if !model.is_empty() {
                    labels.extend([("model_name", model.clone()), ("target_model_name", model.clone())]);
                }
                let of = |names: [&'static str; 2], value| {
                    let labels = labels.clone();
                    names.map(move |name| QueueSample { name, labels: labels.clone(), value })
                };
                samples.extend(
                    of(wake_queue::SIZE_METRIC, load.requests)
                        .into_iter()
                        .chain(of(wake_queue::BYTES_METRIC, load.bytes)),
                );
            }
        }
        samples
    }
}

// === impl Ticket ===

impl Ticket<'_> {
    /// Moves the request to the series of its model.
    fn describe(&mut self, upload: &Upload) {
        let (before, bytes) = (std::mem::take(&mut self.model), upload.len());
        let name = Completion::of(upload.chunks()).ok().and_then(|completion| completion.model);
        let mut model = name.unwrap_or_default();
        model.truncate(model.floor_char_boundary(MAX_MODEL_BYTES));
        let mut waiting = self.activator.waiting.lock();
        remove(&mut waiting, &self.backend, &before, 0);
        let load = waiting.entry(self.backend.clone()).or_default().entry(model.clone()).or_default();
        load.requests += 1;
        load.bytes += bytes;
        (self.model, self.bytes) = (model, bytes);
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        remove(&mut self.activator.waiting.lock(), &self.backend, &self.model, self.bytes);
    }
}

/// Removes one request. Empty entries go, so that the names of models that clients invent do not stay.
fn remove(
    waiting: &mut BTreeMap<BackendName, BTreeMap<String, Load>>,
    backend: &BackendName,
    model: &str,
    bytes: usize,
) {
    let Some(loads) = waiting.get_mut(backend) else { return };
    if let Some(load) = loads.get_mut(model) {
        load.requests -= 1;
        load.bytes -= bytes;
        if load.requests == 0 {
            loads.remove(model);
        }
    }
    if loads.is_empty() {
        waiting.remove(backend);
    }
}
