//! A client whose requests can be made to fail.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use futures::FutureExt;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use longboat_apiserver::ApiServer;
use parking_lot::Mutex;
use serde_json::json;

use crate::watching::{self, Reply, Watching};

/// The faults of a [`faulty`] client. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    inner: Arc<Inner>,
}

/// A fault of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The write succeeds, but the client gets no answer and can send nothing any more, as if the process was killed right
    /// after the write.
    Crash,
    /// The write is refused with a conflict.
    Conflict,
    /// The write fails with an error of the server.
    Error,
    /// The write succeeds, but the answer is a timeout.
    Timeout,
    /// The write succeeds, but no answer ever arrives, as if a machine on the path was lost.
    Silence,
}

/// A successful write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The HTTP method.
    pub method: Method,
    /// The path, from the API group on.
    pub path: String,
}

#[derive(Debug, Default)]
struct Inner {
    log: Mutex<Vec<Write>>,
    dry_runs: AtomicU64,
    /// The number of attempted writes since the last fault was planned, not counting events.
    tried: AtomicU64,
    planned: Mutex<Option<(u64, Fault)>>,
    happened: AtomicBool,
    /// Counts the requests that wait for an answer that never arrives.
    unanswered: Arc<()>,
    dead: AtomicBool,
    /// How many of the next updates get a conflict.
    conflicts: AtomicU64,
    /// A path, and how many of the next reads below it get an error.
    broken: Mutex<Option<(&'static str, u64)>>,
    /// The path below which the client has no rights.
    forbidden: Mutex<Option<&'static str>>,
    watching: Mutex<Watching>,
}

// === impl Faults ===

impl Faults {
    /// Returns the number of successful writes, not counting dry-runs.
    pub fn writes(&self) -> u64 {
        self.inner.log.lock().len() as u64
    }

    /// Returns the successful writes.
    pub fn log(&self) -> Vec<Write> {
        self.inner.log.lock().clone()
    }

    /// Returns the number of requested dry-runs.
    pub fn dry_runs(&self) -> u64 {
        self.inner.dry_runs.load(Ordering::SeqCst)
    }

    /// Plans a fault for the n-th write from now on. Events do not count, because nothing depends on them.
    pub fn plan(&self, nth: u64, fault: Fault) {
        *self.inner.planned.lock() = Some((nth, fault));
        self.inner.happened.store(false, Ordering::SeqCst);
        self.inner.tried.store(0, Ordering::SeqCst);
    }

    /// Whether the planned fault has happened.
    pub fn has_happened(&self) -> bool {
        self.inner.happened.load(Ordering::SeqCst)
    }

    /// Returns how many requests wait for an answer that never arrives.
    pub fn unanswered(&self) -> usize {
        Arc::strong_count(&self.inner.unanswered) - 1
    }

    /// Whether the client gets no answers any more.
    pub fn is_dead(&self) -> bool {
        self.inner.dead.load(Ordering::SeqCst)
    }

    /// Answers this many of the next updates with a conflict.
    pub fn conflict(&self, writes: u64) {
        self.inner.conflicts.store(writes, Ordering::SeqCst);
    }

    /// Answers this many of the next reads below this path with a server error. Watches are not affected.
    pub fn fail_reads(&self, path: &'static str, reads: u64) {
        *self.inner.broken.lock() = Some((path, reads));
    }

    /// Removes the client's rights below this path from now on. `None` restores all rights.
    pub fn forbid(&self, path: Option<&'static str>) {
        *self.inner.forbidden.lock() = path;
    }

    /// Sets how the events of future watches are delivered.
    pub fn watch(&self, how: Watching) {
        *self.inner.watching.lock() = how;
    }

    /// Whether a read must fail.
    fn is_broken(&self, path: &str) -> bool {
        let mut broken = self.inner.broken.lock();
        let left = broken.as_mut().filter(|(below, left)| path.starts_with(below) && *left > 0);
        left.map(|(_, left)| *left -= 1).is_some()
    }

    /// Returns the fault for the next write, if one is planned for it.
    fn next(&self, method: &Method, path: &str) -> Option<Fault> {
        let take = |left: u64| left.checked_sub(1);
        let update = matches!(*method, Method::PUT | Method::PATCH);
        if update && self.inner.conflicts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok() {
            return Some(Fault::Conflict);
        }
        if path.contains("/events") {
            return None;
        }
        let tried = self.inner.tried.fetch_add(1, Ordering::SeqCst) + 1;
        let fault = self.inner.planned.lock().take_if(|(nth, _)| *nth == tried).map(|(_, fault)| fault)?;
        self.inner.happened.store(true, Ordering::SeqCst);
        Some(fault)
    }
}

/// Returns a client of a server with all rights, whose requests have these faults.
pub fn faulty(server: &ApiServer, faults: &Faults) -> Client {
    let (server, faults) = (server.clone(), faults.clone());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (server, faults) = (server.clone(), faults.clone());
        async move { answer(&server, &faults, request).await }.boxed()
    });
    Client::new(service, "default")
}

async fn answer(server: &ApiServer, faults: &Faults, request: Request<Body>) -> Result<Reply, kube::Error> {
    let inner = &faults.inner;
    if faults.is_dead() {
        return std::future::pending().await;
    }
    let client = server.client("default");
    let query = request.uri().query().unwrap_or_default();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    if inner.forbidden.lock().is_some_and(|forbidden| path.starts_with(forbidden)) {
        return Ok(refusal(403, "Forbidden", &format!("{path} is forbidden: the user has no right to it")));
    }
    if method == Method::GET {
        let watches = query.contains("watch=");
        if !watches && faults.is_broken(&path) {
            return Ok(refusal(500, "InternalError", "the server has a fault"));
        }
        let how = if watches { *inner.watching.lock() } else { Watching::Calm };
        let answer = client.send(request).await?;
        // A request from before the crash gets no answer either.
        return if faults.is_dead() {
            std::future::pending().await
        } else {
            Ok(watching::through(answer, how))
        };
    }
    if query.contains("dryRun") {
        inner.dry_runs.fetch_add(1, Ordering::SeqCst);
        return Ok(watching::through(client.send(request).await?, Watching::Calm));
    }
    let fault = faults.next(&method, &path);
    match fault {
        Some(Fault::Conflict) => return Ok(conflict()),
        Some(Fault::Error) => return Ok(refusal(500, "InternalError", "the server has a fault")),
        _ => {}
    }
    let answer = client.send(request).await?;
    if answer.status().is_success() {
        inner.log.lock().push(Write { method, path });
    }
    match fault {
        Some(Fault::Crash) => {
            inner.dead.store(true, Ordering::SeqCst);
            std::future::pending().await
        }
        Some(Fault::Silence) => {
            let _waiting = inner.unanswered.clone();
            std::future::pending().await
        }
        Some(Fault::Timeout) => Ok(refusal(504, "Timeout", "the request did not end in time")),
        _ => Ok(watching::through(answer, Watching::Calm)),
    }
}

fn conflict() -> Reply {
    let message =
        "the object has been modified; please apply your changes to the latest version and try again";
    refusal(409, "Conflict", message)
}

fn refusal(code: u16, reason: &str, message: &str) -> Reply {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
        "message": message,
    });
    Response::builder()
        .status(code)
        .header("content-type", "application/json")
        .body(Body::from(status.to_string().into_bytes()).map_err(Into::into).boxed_unsync())
        .expect("a constant response is well-formed")
}
