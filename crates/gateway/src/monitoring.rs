//! The port of a Gateway's pod for probes and metrics: `/healthz`, `/readyz` and `/metrics`.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{metrics::OPENMETRICS, proxy::Proxy};

/// The most connections: probes and scrapes come one at a time.
const CONNECTIONS: usize = 64;
/// The time limit for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether the pod can take requests.
#[derive(Debug, Clone, Default)]
pub(crate) struct Readiness(Arc<AtomicBool>);

// === impl Readiness ===

impl Readiness {
    pub(crate) fn set(&self, ready: bool) {
        self.0.store(ready, Ordering::Release);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Serves until `end`.
pub(crate) async fn run(
    listener: TcpListener,
    readiness: Readiness,
    proxy: Arc<Proxy>,
    end: CancellationToken,
) {
    let connection = |stream, _| {
        let (readiness, proxy) = (readiness.clone(), proxy.clone());
        async move {
            let service = service_fn(|request| {
                let response = respond(&request, &readiness, &proxy);
                async move { Ok::<_, Infallible>(response) }
            });
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
            if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
                tracing::debug!(%error, "A connection of a probe ended.");
            }
        }
    };
    longboat_accept::until(&end, listener, CONNECTIONS, connection).await.shutdown().await;
}

fn respond(request: &Request<Incoming>, readiness: &Readiness, proxy: &Proxy) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    let (status, text) = match path {
        "/healthz" | "/readyz" | "/metrics" if !matches!(*request.method(), Method::GET | Method::HEAD) => {
            (StatusCode::METHOD_NOT_ALLOWED, "expected GET\n".to_owned())
        }
        "/healthz" => (StatusCode::OK, "ok".to_owned()),
        "/readyz" if readiness.is_set() => (StatusCode::OK, "ok".to_owned()),
        "/readyz" => (StatusCode::SERVICE_UNAVAILABLE, "no routing table yet, or shutting down\n".to_owned()),
        "/metrics" => (StatusCode::OK, proxy.metrics_page()),
        _ => (StatusCode::NOT_FOUND, "not found; use /healthz, /readyz or /metrics\n".to_owned()),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    if path == "/metrics" {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(OPENMETRICS));
    }
    response
}
