//! A client that records its requests, and can delay or refuse some.

use std::sync::Arc;

use http::{Method, Request, Response, header::ACCEPT};
use kube::{Client, client::Body};
use longboat_testkit::TestCluster;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;

/// A request that was sent.
#[derive(Clone, Debug)]
pub(crate) struct SentRequest {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) uri: String,
    pub(crate) accept: String,
    pub(crate) body: Vec<u8>,
}

/// The requests of a client, and what it delays. Clones share one state.
#[derive(Clone)]
pub(crate) struct Tap {
    log: Arc<Mutex<Vec<SentRequest>>>,
    /// The suffix of the paths whose create requests are delayed.
    held: watch::Sender<Option<&'static str>>,
    /// The method and the suffix of the paths of the requests that are forbidden.
    forbidden: Arc<Mutex<Option<(Method, &'static str)>>>,
}

// === impl Tap ===

impl Tap {
    pub(crate) fn new() -> Self {
        Self { log: Arc::default(), held: watch::Sender::new(None), forbidden: Arc::default() }
    }

    /// Delays create requests to paths with this suffix until [`Self::release`].
    pub(crate) fn hold(&self, end: &'static str) {
        self.held.send_replace(Some(end));
    }

    /// Lets all requests through.
    pub(crate) fn release(&self) {
        self.held.send_replace(None);
    }

    /// Forbids requests of a method to paths with a suffix, or none.
    pub(crate) fn forbid(&self, requests: Option<(Method, &'static str)>) {
        *self.forbidden.lock() = requests;
    }

    /// All requests in order. A request is recorded before it is delayed.
    pub(crate) fn log(&self) -> Vec<SentRequest> {
        self.log.lock().clone()
    }

    /// Returns a client with all rights, whose requests are recorded here.
    pub(crate) fn client(&self, world: &TestCluster) -> Client {
        let (tap, server) = (self.clone(), world.server.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (tap, server) = (tap.clone(), server.clone());
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                let accept = head.headers.get(ACCEPT).and_then(|value| value.to_str().ok());
                tap.log.lock().push(SentRequest {
                    method: head.method.clone(),
                    uri: head.uri.to_string(),
                    accept: accept.unwrap_or_default().to_owned(),
                    body: body.to_vec(),
                });
                let forbidden = tap.forbidden.lock().clone();
                if forbidden
                    .is_some_and(|(method, end)| head.method == method && head.uri.path().ends_with(end))
                {
                    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden",
                        "code": 403, "message": "a policy says no"});
                    let response =
                        Response::builder().status(403).body(Body::from(status.to_string().into_bytes()));
                    return response.map_err(|error| kube::Error::Service(error.into()));
                }
                if head.method == Method::POST {
                    let path = head.uri.path().to_owned();
                    let mut blocked = tap.held.subscribe();
                    let is_free = |end: &Option<_>| end.is_none_or(|end: &str| !path.ends_with(end));
                    blocked.wait_for(is_free).await.map_err(|error| kube::Error::Service(error.into()))?;
                }
                server.client("default").send(Request::from_parts(head, Body::from(body.to_vec()))).await
            }
        });
        Client::new(service, "default")
    }
}
