//! A client whose requests can be made to fail.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use futures::FutureExt;
use http::Method;
use kube::Client;
use longboat_apiserver::ApiServer;

/// What a [`faulty`] client does to requests. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    writes: AtomicU64,
    /// Writes that still succeed; zero is no limit.
    limit: AtomicU64,
    dead: AtomicBool,
    /// Writes to fail with a conflict.
    conflicts: AtomicU64,
}

// === impl Faults ===

impl Faults {
    /// Writes that went through: everything but reads and dry-runs.
    pub fn writes(&self) -> u64 {
        self.inner.writes.load(Ordering::SeqCst)
    }

    /// After this many writes no request gets an answer any more, as when the process is killed right after a write.
    pub fn die_after(&self, writes: u64) {
        self.inner.limit.store(writes, Ordering::SeqCst);
    }

    /// Whether the limit was reached.
    pub fn is_dead(&self) -> bool {
        self.inner.dead.load(Ordering::SeqCst)
    }

    /// Answers the next updates with a conflict.
    pub fn conflict(&self, writes: u64) {
        self.inner.conflicts.store(writes, Ordering::SeqCst);
    }

    /// Counts a write; whether it is the last one.
    fn count(&self) -> bool {
        let written = self.inner.writes.fetch_add(1, Ordering::SeqCst) + 1;
        let last = self.inner.limit.load(Ordering::SeqCst) == written;
        if last {
            self.inner.dead.store(true, Ordering::SeqCst);
        }
        last
    }

    fn take_conflict(&self, method: &Method) -> bool {
        let update = matches!(*method, Method::PUT | Method::PATCH);
        let take = |left: u64| left.checked_sub(1);
        update && self.inner.conflicts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok()
    }
}

/// A client of a server with all rights, to whose requests `faults` happen.
pub fn faulty(server: &ApiServer, faults: &Faults) -> Client {
    let (server, faults) = (server.clone(), faults.clone());
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (server, faults) = (server.clone(), faults.clone());
        async move {
            if faults.is_dead() {
                return std::future::pending().await;
            }
            let dry_run = request.uri().query().is_some_and(|query| query.contains("dryRun"));
            let write = *request.method() != Method::GET && !dry_run;
            if write && faults.take_conflict(request.method()) {
                return Ok(conflict());
            }
            let answer = server.client("default").send(request).await;
            if write && faults.count() {
                return std::future::pending().await;
            }
            answer
        }
        .boxed()
    });
    Client::new(service, "default")
}

fn conflict() -> http::Response<kube::client::Body> {
    let status = serde_json::json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "code": 409, "reason": "Conflict",
        "message": "the object has been modified; please apply your changes to the latest version and try again",
    });
    http::Response::builder()
        .status(409)
        .header("content-type", "application/json")
        .body(kube::client::Body::from(status.to_string().into_bytes()))
        .expect("a constant response is well-formed")
}
