//! The server: listening, TLS, and a shutdown that does not cut responses off.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use futures::FutureExt as _;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use longboat_accept::{Budget, FramingStream, Guard};
use longboat_metrics::OPENMETRICS;
use longboat_tls::{KeyPairFiles, LeafRequest, ReloadingRoots};
use rustls::ServerConfig;
use tokio::{net::TcpListener, sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::{
    allowlist::{self, Allowlist, PoolKnowledge},
    answer,
    args::Args,
    body::ProxyBody,
    error::Error,
    headers,
    proxy::Proxy,
    settings::{ServerTls, Settings},
};

const ALPN: &[&[u8]] = &[b"h2", b"http/1.1"];

/// How long a client may take for its first request, and to send the head of each. The limit prevents idle connections from accumulating.
const HEADER_TIMEOUT: Duration = Duration::from_mins(2);

/// The most connections at once. This is far more than the engine can serve.
const MAX_CONNECTIONS: usize = 8192;

/// How long running requests may continue after shutdown. The reference intends the same time.
const DRAIN_TIMEOUT: Duration = Duration::from_mins(1);

/// How long to wait for the list of the pool's pods before requests are served without it.
const PODS_TIMEOUT: Duration = Duration::from_secs(2);

/// The longest head of a request. Agents send long cookies and traces.
const MAX_HEAD_BYTES: usize = 1 << 20;

/// The most bytes of long heads that have not arrived whole, on each port: dozens of the longest.
const MAX_HEADS_BYTES: usize = 64 << 20;

/// The lifetime of the self-signed certificate in days. No client checks it.
const SELF_SIGNED_DAYS: u32 = 3650;

/// Serves until `shutdown`. Then no new requests are accepted, and running requests may finish.
pub async fn run(args: Args, shutdown: CancellationToken) -> Result<(), Error> {
    let settings = Settings::try_from(args)?;
    let tls = server_config(&settings, &shutdown).await?;
    let mut background = JoinSet::new();
    let allowlist = match settings.allowed.clone() {
        None => None,
        Some(pool) => {
            let client = longboat_watch::client().await.map_err(Error::Cluster)?;
            let allowlist = Allowlist::default();
            let (publish, mut known) = watch::channel(PoolKnowledge::Nothing);
            let following =
                allowlist::follow(client, pool, allowlist.clone(), publish, shutdown.child_token());
            background.spawn(following);
            // Until the pods have been read, every target is forbidden. Reading may take long, for example without the
            // permission to read pods. Then the engine beside the sidecar is served all the same.
            let reading = async {
                let _ = known.wait_for(|known| *known >= PoolKnowledge::Pool).await;
                let pods = known.wait_for(|known| *known >= PoolKnowledge::Pods);
                if tokio::time::timeout(PODS_TIMEOUT, pods).await.is_err() {
                    tracing::warn!(
                        "The pods of the pool are not known yet, so no prefill target is allowed."
                    );
                }
            };
            if shutdown.run_until_cancelled(reading).await.is_none() {
                return Ok(());
            }
            Some(allowlist)
        }
    };
    let mut listeners = Vec::new();
    for rank in &settings.ranks {
        listeners.push(listen(settings.address, rank.port).await?);
    }
    let metrics = match settings.metrics_port {
        Some(port) => Some(listen(settings.address, port).await?),
        None => None,
    };
    let ports: Vec<u16> = settings.ranks.iter().map(|rank| rank.port).collect();
    tracing::info!(?ports, "Forwarding requests to the engine of this pod.");
    let trusted = settings.verifies().then(ReloadingRoots::of_environment);
    if let Some(trusted) = trusted.clone() {
        background.spawn(trusted.follow(shutdown.child_token()));
    }
    let proxy = Arc::new(Proxy::new(settings, allowlist, trusted.as_ref()));
    let mut servers = JoinSet::new();
    for (rank, listener) in listeners.into_iter().enumerate() {
        servers.spawn(serve(listener, tls.clone(), proxy.clone(), Part::Rank(rank), shutdown.clone()));
    }
    if let Some(listener) = metrics {
        servers.spawn(serve(listener, None, proxy, Part::Metrics, shutdown.clone()));
    }
    while servers.join_next().await.is_some() {}
    background.shutdown().await;
    Ok(())
}

async fn server_config(
    settings: &Settings,
    shutdown: &CancellationToken,
) -> Result<Option<Arc<ServerConfig>>, Error> {
    Ok(Some(match &settings.serving {
        ServerTls::Plain => return Ok(None),
        ServerTls::SelfSigned => {
            let pair = longboat_tls::self_signed(&LeafRequest {
                common_name: "routing-sidecar".into(),
                dns_names: vec!["localhost".into()],
                days: SELF_SIGNED_DAYS,
                ..LeafRequest::default()
            })?;
            longboat_tls::server_config(&pair, ALPN)?
        }
        ServerTls::Folder(folder) => {
            let options = longboat_tls::ServerOptions::with_alpn(ALPN);
            KeyPairFiles::of_folder(folder).watch(&options, shutdown.child_token()).await?
        }
    }))
}

async fn listen(address: Option<IpAddr>, port: u16) -> Result<TcpListener, Error> {
    let ip = match address {
        Some(address) => address,
        None => longboat_accept::every_address().await,
    };
    let address = SocketAddr::new(ip, port);
    TcpListener::bind(address).await.map_err(|source| Error::Listen { address, source })
}

/// The content of a port.
#[derive(Debug, Clone, Copy)]
enum Part {
    Rank(usize),
    Metrics,
}

/// The handler of the requests of a port.
#[derive(Clone)]
struct Handler {
    proxy: Arc<Proxy>,
    part: Part,
    guard: Option<Arc<Guard>>,
    /// The memory of the heads that arrive.
    heads: Arc<Budget>,
}

// === impl Handler ===

impl Handler {
    async fn handle(&self, request: Request<Incoming>, peer: SocketAddr) -> Response<ProxyBody> {
        let Self { proxy, part, guard, .. } = self;
        let (head, body) = request.into_parts();
        if let Some(refusal) = proxy.refusal(&head, guard.as_deref()) {
            return refusal;
        }
        match part {
            Part::Rank(rank) => {
                // An error span, so that every line about a request has its id, whatever is logged.
                let span = tracing::error_span!("request", request_id = headers::request_id(&head.headers));
                proxy.handle(Request::from_parts(head, body), *rank, peer).instrument(span).await
            }
            Part::Metrics => page(proxy, head.uri.path()),
        }
    }
}

async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    proxy: Arc<Proxy>,
    part: Part,
    shutdown: CancellationToken,
) {
    let guard = listener.local_addr().ok().and_then(Guard::of_back_end).map(Arc::new);
    let handler = Handler { proxy, part, guard, heads: Budget::new(MAX_HEADS_BYTES) };
    let mut builder = longboat_accept::builder(HEADER_TIMEOUT);
    builder.http1().max_buf_size(MAX_HEAD_BYTES);
    let accepted = |stream, peer| {
        let (handler, builder) = (handler.clone(), builder.clone());
        let (tls, shutdown) = (tls.clone(), shutdown.clone());
        async move {
            let accepted = longboat_tls::accept(tls, stream, peer, HEADER_TIMEOUT, &shutdown);
            let Some(stream) = accepted.await else { return };
            let stream = FramingStream::new(stream);
            let stream = stream.with_head_limit(MAX_HEAD_BYTES).with_head_budget(&handler.heads);
            let answer = |request| {
                let handler = handler.clone();
                async move { handler.handle(request, peer).await }
            };
            longboat_accept::serve(stream, &builder, HEADER_TIMEOUT, &shutdown, answer).boxed().await;
        }
    };
    let mut open = longboat_accept::until(&shutdown, listener, MAX_CONNECTIONS, accepted).await;
    if !longboat_accept::drain(&mut open, DRAIN_TIMEOUT).await {
        tracing::warn!("Aborted the requests that ran longer than the shutdown timeout.");
    }
}

fn page(proxy: &Proxy, path: &str) -> Response<ProxyBody> {
    if path != "/metrics" {
        return answer::of(StatusCode::NOT_FOUND, answer::TEXT, "404 page not found\n");
    }
    answer::of(StatusCode::OK, OPENMETRICS, proxy.metrics().page())
}
