//! The process of a model server: listening, TLS, and a shutdown that lets answers finish.

use std::{convert::Infallible, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use hyper::service::{Service as _, service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::{Builder, Connection},
    service::TowerToHyperService,
};
use longboat_accept::{Guard, RunningRequests};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};
use tokio_util::sync::CancellationToken;

use crate::{ApiKeys, Refusal, api_keys};

const ALPN: &[&[u8]] = &[b"h2", b"http/1.1"];
/// The most connections: far more than an engine can serve.
const MAX_CONNECTIONS: usize = 8192;
/// How long a client may take for the handshake, and how long it may stay silent after connecting.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_mins(2);

/// Why a model server cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The address is taken, or does not belong to this machine.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The operating system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The certificate or its key cannot be used.
    #[error("cannot serve TLS")]
    Tls(#[from] longboat_tls::TlsError),
}

/// How a server listens, whom it answers, and how it shuts down.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListenOptions {
    /// The certificate file and the key file, read again when they change; plain HTTP without them.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// The keys of which requests need one; `None` if no flag says so.
    pub keys: Option<ApiKeys>,
    /// How long running requests may take after the shutdown.
    pub patience: Duration,
}

/// Binds an address.
pub async fn listen(address: SocketAddr) -> Result<TcpListener, RunError> {
    TcpListener::bind(address).await.map_err(|source| RunError::Listen { address, source })
}

/// Serves until `shutdown`. Then accepts no new requests, and lets running ones finish.
pub async fn serve(
    router: Router,
    listener: TcpListener,
    listening: ListenOptions,
    shutdown: CancellationToken,
) -> Result<(), RunError> {
    let tls = match &listening.certificate {
        None => None,
        Some((certificate, key)) => {
            let options = longboat_tls::ServerOptions::with_alpn(ALPN);
            let files = longboat_tls::KeyPairFiles::new(certificate, key);
            Some(files.watch(&options, shutdown.child_token()).await?)
        }
    };
    let router = match listening.keys.filter(|keys| !keys.is_empty()) {
        None => router,
        Some(keys) => router.layer(middleware::from_fn_with_state(keys, api_keys::guard)),
    };
    let router = match listener.local_addr().ok().and_then(Guard::of_back_end) {
        None => router,
        Some(guard) => router.layer(middleware::from_fn_with_state(Arc::new(guard), guarded)),
    };
    let service = TowerToHyperService::new(router);
    let accepted = |stream, peer| {
        let (service, shutdown, tls) = (service.clone(), shutdown.clone(), tls.clone());
        async move {
            match tls {
                None => connection(stream, service, shutdown).await,
                Some(tls) => {
                    if let Some(stream) = longboat_tls::handshake(tls, stream, peer, HANDSHAKE_TIMEOUT).await
                    {
                        connection(stream, service, shutdown).await;
                    }
                }
            }
        }
    };
    let mut open = longboat_accept::until(&shutdown, listener, MAX_CONNECTIONS, accepted).await;
    if !longboat_accept::drain(&mut open, listening.patience).await {
        tracing::warn!("Aborted the requests that ran longer than the shutdown timeout.");
    }
    Ok(())
}

/// Refuses requests of pages of other sites.
async fn guarded(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    match guard.check(request.version(), request.uri(), request.headers(), |_| false) {
        Ok(_) => next.run(request).await,
        Err(refusal) => Refusal::from(refusal).into_response(),
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    service: TowerToHyperService<Router>,
    shutdown: CancellationToken,
) {
    let requests = RunningRequests::default();
    let running = requests.clone();
    let service = service_fn(move |request| {
        let (answering, running) = (service.call(request), running.begin());
        async move { Ok::<_, Infallible>(running.until_end_of(answering.await?)) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HANDSHAKE_TIMEOUT);
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    let served =
        requests.serve(HANDSHAKE_TIMEOUT, &shutdown, connection, Connection::graceful_shutdown).await;
    if let Some(Err(error)) = served {
        tracing::debug!(error, "A connection ended early.");
    }
}
