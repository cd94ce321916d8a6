//! The port of a Gateway's pod for probes and metrics: `/healthz`, `/readyz` and `/metrics`. If the pod picks endpoints,
//! `/debug/decisions` has the decisions for all pools, and `/pools/NAMESPACE/NAME` the pages of one pool's picker, such as
//! `/pools/NAMESPACE/NAME/metrics`.

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
use hyper::{body::Incoming, service::service_fn};
use longboat_epp::host::Pages;
use longboat_metrics::OPENMETRICS;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::proxy::Proxy;

/// The most connections: probes and scrapes come one at a time.
const MAX_CONNECTIONS: usize = 64;
/// The time limit for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// What the port serves.
pub(crate) struct Monitoring {
    /// Whether the pod can take requests.
    pub(crate) is_ready: Arc<AtomicBool>,
    pub(crate) proxy: Arc<Proxy>,
    /// The pages of pickers, if the pod picks.
    pub(crate) pages: Option<Pages>,
}

// === impl Monitoring ===

impl Monitoring {
    /// Serves until `end`.
    pub(crate) async fn run(self, listener: TcpListener, end: CancellationToken) {
        let this = Arc::new(self);
        let connection = |stream, _| {
            let this = this.clone();
            async move {
                let service = service_fn(|request: Request<Incoming>| async {
                    // Moved into the future, which must not borrow from the call.
                    let request = request;
                    Ok::<_, Infallible>(match this.of_pickers(&request).await {
                        Some(response) => response,
                        None => this.respond(&request),
                    })
                });
                longboat_accept::serve_http1(stream, HEAD_TIMEOUT, service).await;
            }
        };
        longboat_accept::until(&end, listener, MAX_CONNECTIONS, connection).await.shutdown().await;
    }

    /// Answers a request for a page of pickers.
    async fn of_pickers(&self, request: &Request<Incoming>) -> Option<Response<Full<Bytes>>> {
        self.pages.as_ref()?.of_pools(&self.proxy.local_pickers(), request).await
    }

    fn respond(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        let (status, text) = match path {
            "/healthz" | "/readyz" | "/metrics"
                if !matches!(*request.method(), Method::GET | Method::HEAD) =>
            {
                (StatusCode::METHOD_NOT_ALLOWED, "expected GET\n".to_owned())
            }
            "/healthz" => (StatusCode::OK, "ok".to_owned()),
            "/readyz" if self.is_ready.load(Ordering::Acquire) => (StatusCode::OK, "ok".to_owned()),
            "/readyz" => {
                (StatusCode::SERVICE_UNAVAILABLE, "no routing table yet, or shutting down\n".to_owned())
            }
            "/metrics" => (StatusCode::OK, self.proxy.metrics_page()),
            _ => (StatusCode::NOT_FOUND, "not found; use /healthz, /readyz or /metrics\n".to_owned()),
        };
        let mut response = Response::new(Full::from(text));
        *response.status_mut() = status;
        if path == "/metrics" {
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(OPENMETRICS));
        }
        response
    }
}
