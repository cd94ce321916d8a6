//! The pages of a picker: `/metrics`, `/debug/plugins/state` and `/debug/decisions`, and the metrics port, which has `/healthz` too.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, service::service_fn};
use longboat_accept::Guard;
use longboat_metrics::OPENMETRICS;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};
use tokio_util::sync::CancellationToken;

use crate::{
    core::Core,
    decisions::{Decisions, Query},
    readers::{Readers, may_read},
};

/// The most connections at once.
pub(crate) const MAX_CONNECTIONS: usize = 64;
/// How long a handshake or a request's head may take. A connection is closed if it idles longer between two scrapes.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// What the metrics port serves.
pub(crate) struct Monitoring {
    pub(crate) core: Arc<Core>,
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
    /// Checks who may read. `None` if everybody may.
    pub(crate) readers: Option<Readers>,
}

/// The page of decisions, of one picker as of several.
pub(crate) const DECISIONS: &str = "/debug/decisions";

/// Returns the metrics page. Computes the metrics that are set only at a scrape.
pub(crate) fn metrics_page(core: &Core) -> String {
    let members = core.pool.members();
    if core.settings.flow.enabled {
        let (saturation, stages, readings) = core.admission.saturations(core);
        core.metrics.flow.saturated(saturation, &stages, &readings);
        let served = core.admission.asks_for_service().then(|| core.admission.service(core));
        let stale = core.admission.stale_endpoints(core);
        core.metrics.flow_numbers(&core.admission.shares(), stale, served.as_deref());
    }
    // A pick that saw an endpoint just before it left may have brought a series back.
    core.metrics.keep_endpoints(&members);
    {
        let state = core.state.read();
        core.metrics.in_flight(&members, &state);
        if let Some(metrics) = &core.metrics.kv_cache {
            metrics.set(state.holdings().iter().map(|holdings| holdings.counts()));
        }
        core.metrics.prefixes.sizes(state.prefix_blocks());
    }
    core.metrics.page(&members, &core.bodies)
}

impl Monitoring {
    /// Serves until shutdown.
    pub(crate) async fn run(self, listener: TcpListener, shutdown: CancellationToken) {
        let this = Arc::new(self);
        let guard = listener.local_addr().ok().and_then(Guard::of_back_end).map(Arc::new);
        let accepted = |stream, peer| {
            let (this, guard, shutdown) = (Arc::clone(&this), guard.clone(), shutdown.clone());
            async move {
                let this = &*this;
                let answer = |request| async move { this.answer(&request).await };
                let accepted = longboat_tls::accept(this.tls.clone(), stream, peer, HEAD_TIMEOUT, &shutdown);
                if let Some(stream) = accepted.await {
                    connection(stream, guard.as_deref(), answer).await;
                }
            }
        };
        longboat_accept::until(&shutdown, listener, MAX_CONNECTIONS, accepted).await.shutdown().await;
    }

    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        match request.uri().path() {
            "/healthz" if request.method() == Method::GET => plain(StatusCode::OK, "ok"),
            path => page(&[&*self.core], self.readers.as_ref(), path, request).await,
        }
    }
}

/// Answers the requests of a connection. The guard refuses those that pages of other sites make.
pub(crate) async fn connection<A: Future<Output = Response<Full<Bytes>>>>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    guard: Option<&Guard>,
    answer: impl Fn(Request<Incoming>) -> A,
) {
    let answer = &answer;
    let service = service_fn(|request: Request<Incoming>| async move {
        let checked =
            guard.map(|guard| guard.check(request.version(), request.uri(), request.headers(), |_| false));
        Ok::<_, Infallible>(match checked {
            Some(Err(refusal)) => plain(refusal.status(), format!("{refusal}\n")),
            _ => answer(request).await,
        })
    });
    longboat_accept::serve_http1(stream, HEAD_TIMEOUT, service).await;
}

/// Returns a page of pickers. Only decisions can be those of several.
pub(crate) async fn page<B: Sync>(
    cores: &[&Core],
    readers: Option<&Readers>,
    path: &str,
    request: &Request<B>,
) -> Response<Full<Bytes>> {
    if request.method() != Method::GET {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "");
    }
    let (path, core) = match (path, cores) {
        (DECISIONS, _) => (path, None),
        ("/metrics" | "/debug/plugins/state", [core]) => (path, Some(*core)),
        _ => return plain(StatusCode::NOT_FOUND, "not found"),
    };
    match (may_read(readers, request.headers()).await, core) {
        (Err(status), _) => refused(status),
        (Ok(()), None) => decisions(cores, request.uri().query()),
        (Ok(()), Some(core)) if path == "/metrics" => open_metrics(metrics_page(core)),
        (Ok(()), Some(core)) => plugins(core),
    }
}

/// The response to a client that may not read a page.
pub(crate) fn refused(status: StatusCode) -> Response<Full<Bytes>> {
    plain(status, status.canonical_reason().unwrap_or_default())
}

/// A page of metrics.
pub(crate) fn open_metrics(page: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(page));
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(OPENMETRICS));
    response
}

/// The state of the plugins, so that people can see why an endpoint was picked.
fn plugins(core: &Core) -> Response<Full<Bytes>> {
    let members = core.pool.members();
    let endpoints: Vec<_> = members.iter().map(|member| &member.endpoint).collect();
    let state = core.scheduler.describe(&core.state.read(), &endpoints, core.now_ms());
    json(format!("{state:#}\n"))
}

/// Recent decisions, the newest first.
fn decisions(cores: &[&Core], query: Option<&str>) -> Response<Full<Bytes>> {
    match Query::parse(query.unwrap_or_default()) {
        _ if !cores.iter().any(|core| core.decisions.are_kept()) => {
            plain(StatusCode::NOT_FOUND, "the picker records no decisions: start it with --decisions=256\n")
        }
        Ok(query) => json(Decisions::answer(cores.iter().map(|core| &core.decisions), &query)),
        Err(message) => plain(StatusCode::BAD_REQUEST, message),
    }
}

fn json(text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    let kind = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

pub(crate) fn plain(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    response
}
