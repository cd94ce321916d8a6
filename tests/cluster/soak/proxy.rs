//! A proxy between the controller and the API server that injects faults.

use std::{
    collections::{BTreeMap, HashMap},
    convert::Infallible,
    fmt, io,
    net::Ipv4Addr,
    os::fd::{AsFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::{Stream, StreamExt, future, stream};
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use longboat_tls::{CertificateAuthority, LeafRequest};
use parking_lot::Mutex;
use reqwest::{Certificate, Client};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::faults::{End, Fault, of_request, of_watch};
use crate::api::block;

type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A proxy that injects faults, in front of an API server that has none.
pub(crate) struct Proxy {
    pub(crate) url: String,
    /// The PEM of the CA that issued the proxy's certificate.
    pub(crate) authority: String,
    state: Arc<State>,
    _end: DropGuard,
}

struct State {
    seed: u64,
    upstream: String,
    client: Client,
    /// Whether faults are on.
    faulty: watch::Sender<bool>,
    /// Whether an outage is on: every request fails.
    away: AtomicBool,
    /// How often each request was made.
    asked: Mutex<HashMap<String, u64>>,
    /// How often each fault happened, by its name.
    happened: Mutex<BTreeMap<String, u64>>,
}

/// A client connection that can be reset.
struct Wire(OwnedFd);

// === impl Proxy ===

impl Proxy {
    /// Starts a proxy in front of the API server at `upstream`, whose certificate `upstream_authority` has issued. Faults are
    /// off.
    pub(crate) fn start(seed: u64, upstream: &str, upstream_authority: &str) -> Self {
        let authority = CertificateAuthority::new("faults").unwrap();
        let request = LeafRequest {
            common_name: "faults".into(),
            ips: vec![Ipv4Addr::LOCALHOST.into()],
            days: 1,
            ..LeafRequest::default()
        };
        let pair = authority.issue(&request).unwrap();
        let acceptor = TlsAcceptor::from(longboat_tls::server_config(&pair, &[b"http/1.1"]).unwrap());
        let client = Client::builder()
            .no_proxy()
            .http1_only()
            .tls_certs_only([Certificate::from_pem(upstream_authority.as_bytes()).unwrap()])
            .build()
            .unwrap();
        let state = Arc::new(State {
            seed,
            upstream: upstream.to_owned(),
            client,
            faulty: watch::Sender::new(false),
            away: AtomicBool::new(false),
            asked: Mutex::default(),
            happened: Mutex::default(),
        });
        let end = CancellationToken::new();
        let listener = block(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (serving, stop) = (state.clone(), end.clone());
        block(async { drop(tokio::spawn(async move { accept(listener, acceptor, serving, stop).await })) });
        Self {
            url: format!("https://127.0.0.1:{port}"),
            authority: authority.pem(),
            state,
            _end: end.drop_guard(),
        }
    }

    /// Turns faults on or off.
    pub(crate) fn set_faulty(&self, faulty: bool) {
        self.state.faulty.send_replace(faulty);
    }

    /// Begins or ends an outage. Open watches continue.
    pub(crate) fn set_away(&self, away: bool) {
        self.state.away.store(away, Ordering::SeqCst);
    }

    /// How often each fault happened.
    pub(crate) fn happened(&self) -> BTreeMap<String, u64> {
        self.state.happened.lock().clone()
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, state: Arc<State>, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            () = stop.cancelled() => return,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(_) => continue,
            },
        };
        let (acceptor, state) = (acceptor.clone(), state.clone());
        connections.spawn(async move {
            let Ok(wire) = stream.as_fd().try_clone_to_owned() else { return };
            let wire = Arc::new(Wire(wire));
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let answer = service_fn(|request| state.clone().answer(request, wire.clone()));
            // Errors are expected: the proxy breaks connections on purpose.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

// === impl Wire ===

impl Wire {
    /// Makes the connection end with a TCP reset when it is closed.
    fn cut(&self) -> io::Error {
        let _ = rustix::net::sockopt::set_socket_linger(&self.0, Some(Duration::ZERO));
        io::Error::from(io::ErrorKind::ConnectionReset)
    }
}

// === impl State ===

impl State {
    fn is_faulty(&self) -> bool {
        *self.faulty.borrow()
    }

    fn count(&self, what: &str) {
        *self.happened.lock().entry(what.to_owned()).or_default() += 1;
    }

    /// Counts a request. Returns how often it was made so far, including this time.
    fn nth(&self, asked: &str) -> u64 {
        let mut all = self.asked.lock();
        let count = all.entry(asked.to_owned()).or_default();
        *count += 1;
        *count
    }

    async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        wire: Arc<Wire>,
    ) -> io::Result<Response<Body>> {
        if self.away.load(Ordering::SeqCst) {
            self.count("away");
            return Err(wire.cut());
        }
        let asked = format!("{} {}", request.method(), request.uri().path());
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        if is_watch {
            let asked = asked + "?watch";
            let planned = of_watch(self.seed, &asked, self.nth(&asked));
            return self.watch(request, planned, wire).await;
        }
        if !self.is_faulty() {
            return self.pass(request).await;
        }
        let Some(fault) = of_request(self.seed, &asked, self.nth(&asked)) else {
            return self.pass(request).await;
        };
        self.count(fault.name());
        match fault {
            Fault::Reset => Err(wire.cut()),
            Fault::Lost => {
                self.pass(request).await?.into_body().collect().await?;
                Err(wire.cut())
            }
            Fault::Torn => {
                let (head, body) = self.pass(request).await?.into_parts();
                let whole = body.collect().await?.to_bytes();
                let half = whole.slice(..whole.len() / 2);
                let cut = async move { Err(wire.cut()) };
                let parts = stream::once(future::ready(Ok(half))).chain(stream::once(cut));
                Ok(Response::from_parts(head, streamed(parts)))
            }
            Fault::TimedOut => {
                self.pass(request).await?.into_body().collect().await?;
                Ok(status(StatusCode::GATEWAY_TIMEOUT, "Timeout", "request did not complete within 34s"))
            }
            Fault::TooMany => {
                let told = "the server has received too many requests and has asked us to try again later";
                let mut answer = status(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", told);
                answer.headers_mut().insert(header::RETRY_AFTER, 1.into());
                Ok(answer)
            }
            Fault::Broken => {
                let told = "etcdserver: leader changed";
                Ok(status(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", told))
            }
            Fault::Gibberish => {
                let mut answer = Response::new(whole("<html><h1>502 Bad Gateway</h1></html>".into()));
                *answer.status_mut() = StatusCode::BAD_GATEWAY;
                Ok(answer)
            }
            Fault::Late(wait) => {
                tokio::time::sleep(wait).await;
                self.pass(request).await
            }
            Fault::Slow(wait) => {
                let (head, body) = self.pass(request).await?.into_parts();
                let whole_answer = body.collect().await?.to_bytes();
                tokio::time::sleep(wait).await;
                Ok(Response::from_parts(head, whole(whole_answer)))
            }
            Fault::Undone(wait) => self.undo(request, wait).await,
        }
    }

    /// Forwards a write and deletes the written child before the response is sent.
    async fn undo(&self, request: Request<Incoming>, wait: Duration) -> io::Result<Response<Body>> {
        let (path, headers) = (request.uri().path().to_owned(), request.headers().clone());
        let (head, body) = self.pass(request).await?.into_parts();
        let answer = body.collect().await?.to_bytes();
        if let Some(child) = child(&path, &answer) {
            let deleting = self.client.delete(format!("{}{child}", self.upstream));
            let deleting = deleting.header(header::AUTHORIZATION, &headers[header::AUTHORIZATION]);
            let deleted = deleting.send().await.map_err(io::Error::other)?.status();
            assert!(deleted.is_success() || deleted == StatusCode::NOT_FOUND, "{child}: {deleted}");
            self.count("done, and undone before the answer came");
            tokio::time::sleep(wait).await;
        }
        Ok(Response::from_parts(head, whole(answer)))
    }

    /// Forwards a request to the API server.
    async fn pass(&self, request: Request<Incoming>) -> io::Result<Response<Body>> {
        let (head, body) = request.into_parts();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
        let mut passed = self.client.request(head.method.clone(), format!("{}{path}", self.upstream));
        for (name, value) in &head.headers {
            if ![header::HOST, header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING]
                .contains(name)
            {
                passed = passed.header(name, value);
            }
        }
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let answer = passed.body(body).send().await.map_err(io::Error::other)?;
        let mut response = Response::builder().status(answer.status());
        for (name, value) in answer.headers() {
            if ![header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING].contains(name) {
                response = response.header(name, value);
            }
        }
        let parts = answer.bytes_stream().map(|part| part.map_err(io::Error::other));
        response.body(streamed(parts)).map_err(io::Error::other)
    }

    /// Forwards a watch until its planned end, if it has one. The time to that end starts when faults are on.
    async fn watch(
        self: Arc<Self>,
        request: Request<Incoming>,
        planned: Option<(End, Duration)>,
        wire: Arc<Wire>,
    ) -> io::Result<Response<Body>> {
        let Some((end, after)) = planned else { return self.pass(request).await };
        if end == End::Gone && self.is_faulty() {
            self.count(end.name());
            return Ok(status(StatusCode::GONE, "Expired", "too old resource version: 1 (2)"));
        }
        let (head, body) = self.pass(request).await?.into_parts();
        let (state, mut faulty) = (self.clone(), self.faulty.subscribe());
        let over = Arc::new(AtomicBool::new(false));
        let time = {
            let over = over.clone();
            async move {
                if faulty.wait_for(|faulty| *faulty).await.is_err() {
                    return future::pending().await;
                }
                tokio::time::sleep(after).await;
                over.store(true, Ordering::SeqCst);
            }
        };
        let begun = body.into_data_stream().take_until(Box::pin(time));
        let last = stream::once(async move {
            // No fault if the server ended the watch, or if faults are off by now.
            if !over.load(Ordering::SeqCst) || !state.is_faulty() {
                return None;
            }
            state.count(end.name());
            match end {
                End::Expired | End::Gone => {
                    let told = failure(410, "Expired", "too old resource version: 1 (2)");
                    let event = json!({"type": "ERROR", "object": told});
                    Some(Ok(Bytes::from(format!("{event}\n"))))
                }
                End::Torn => Some(Ok(Bytes::from_static(br#"{"type":"MODIFIED","object":{"kind":"#))),
                End::Silent(wait) => {
                    tokio::time::sleep(wait).await;
                    Some(Err(wire.cut()))
                }
                End::Reset => Some(Err(wire.cut())),
                End::Closed => None,
            }
        });
        Ok(Response::from_parts(head, streamed(begun.chain(last.filter_map(future::ready)))))
    }
}

impl Fault {
    fn name(self) -> &'static str {
        match self {
            Self::Reset => "reset",
            Self::Lost => "done, but the connection broke",
            Self::Torn => "done, but the answer was torn",
            Self::TimedOut => "done, but 504",
            Self::TooMany => "429",
            Self::Broken => "500",
            Self::Gibberish => "502 in HTML",
            Self::Late(_) => "late",
            Self::Slow(_) => "done, but the answer came late",
            Self::Undone(_) => "to be undone, if it is of a child",
        }
    }
}

impl End {
    fn name(self) -> &'static str {
        match self {
            Self::Gone => "watch: 410",
            Self::Closed => "watch: closed",
            Self::Expired => "watch: expired",
            Self::Torn => "watch: torn",
            Self::Reset => "watch: reset",
            Self::Silent(_) => "watch: silent, then reset",
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Proxy").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Returns the path of the object in a response, or `None` if it is not the child of a service.
fn child(path: &str, answer: &[u8]) -> Option<String> {
    let object: Value = serde_json::from_slice(answer).ok()?;
    let metadata = &object["metadata"];
    if metadata["ownerReferences"][0]["kind"] != "LLMInferenceService" {
        return None;
    }
    let name = metadata["name"].as_str()?;
    let is_there = path.rsplit('/').next() == Some(name);
    Some(if is_there { path.to_owned() } else { format!("{path}/{name}") })
}

fn failure(code: u16, reason: &str, message: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
        "message": message,
    })
}

fn status(code: StatusCode, reason: &str, message: &str) -> Response<Body> {
    let mut answer = Response::new(whole(failure(code.as_u16(), reason, message).to_string().into()));
    *answer.status_mut() = code;
    answer.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    answer
}

fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never: Infallible| match never {}).boxed_unsync()
}

fn streamed(parts: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Body {
    StreamBody::new(parts.map(|part| part.map(Frame::data))).boxed_unsync()
}
