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

/// What a [`faulty`] client does to requests. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    inner: Arc<Inner>,
}

/// What becomes of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is done, and nobody hears of it or does anything ever again, as when the process is killed right after it.
    Crash,
    /// It is refused, because somebody else was faster.
    Conflict,
    /// It is not done: the server has an error.
    Error,
    /// It is done, but the answer says that it took too long.
    Timeout,
    /// It is done, and no answer ever comes, as when a machine in between is lost.
    Silence,
}

/// A write that went through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// How.
    pub method: Method,
    /// What, from the API group on.
    pub path: String,
}

#[derive(Debug, Default)]
struct Inner {
    log: Mutex<Vec<Write>>,
    dry_runs: AtomicU64,
    /// Writes that were tried since the next fault was planned, events aside.
    tried: AtomicU64,
    planned: Mutex<Option<(u64, Fault)>>,
    happened: AtomicBool,
    /// Requests whose answer never comes, as long as somebody waits for it.
    unanswered: Arc<()>,
    dead: AtomicBool,
    /// Updates to answer with a conflict.
    conflicts: AtomicU64,
    /// Reads to answer with an error, and below which path.
    broken: Mutex<Option<(&'static str, u64)>>,
    /// Where the client has no rights.
    forbidden: Mutex<Option<&'static str>>,
    watching: Mutex<Watching>,
}

// === impl Faults ===

impl Faults {
    /// How many writes went through: everything but reads and dry-runs.
    pub fn writes(&self) -> u64 {
        self.inner.log.lock().len() as u64
    }

    /// The writes that went through.
    pub fn log(&self) -> Vec<Write> {
        self.inner.log.lock().clone()
    }

    /// How many dry-runs were asked for.
    pub fn dry_runs(&self) -> u64 {
        self.inner.dry_runs.load(Ordering::SeqCst)
    }

    /// Plans what becomes of the n-th write from now on; events do not count, because nothing depends on them.
    pub fn plan(&self, nth: u64, fault: Fault) {
        *self.inner.planned.lock() = Some((nth, fault));
        self.inner.happened.store(false, Ordering::SeqCst);
        self.inner.tried.store(0, Ordering::SeqCst);
    }

    /// Whether what was planned has happened.
    pub fn happened(&self) -> bool {
        self.inner.happened.load(Ordering::SeqCst)
    }

    /// How many answers are waited for that never come.
    pub fn unanswered(&self) -> usize {
        Arc::strong_count(&self.inner.unanswered) - 1
    }

    /// Whether no request gets an answer any more.
    pub fn is_dead(&self) -> bool {
        self.inner.dead.load(Ordering::SeqCst)
    }

    /// Answers the next updates with a conflict.
    pub fn conflict(&self, writes: u64) {
        self.inner.conflicts.store(writes, Ordering::SeqCst);
    }

    /// Answers the next reads below this path with an error of the server. Watches go on.
    pub fn fail_reads(&self, path: &'static str, reads: u64) {
        *self.inner.broken.lock() = Some((path, reads));
    }

    /// From now on the client has no right to what is below this path; none: all rights again.
    pub fn forbid(&self, path: Option<&'static str>) {
        *self.inner.forbidden.lock() = path;
    }

    /// What becomes of the events of the watches that begin from now on.
    pub fn watch(&self, how: Watching) {
        *self.inner.watching.lock() = how;
    }

    /// Whether a read is one of those that fail.
    fn is_broken(&self, path: &str) -> bool {
        let mut broken = self.inner.broken.lock();
        let left = broken.as_mut().filter(|(below, left)| path.starts_with(below) && *left > 0);
        left.map(|(_, left)| *left -= 1).is_some()
    }

    /// The fault of the write that is about to be made, if one is planned for it.
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

/// A client of a server with all rights, to whose requests `faults` happen.
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
        // Nobody hears of what was asked for before the end.
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
