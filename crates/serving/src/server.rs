//! The process of a model server: listening, TLS, and a shutdown that lets answers finish.

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use futures::FutureExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use longboat_accept::Guard;
use tokio::net::TcpListener;
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
    pub shutdown_timeout: Duration,
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
    // The layer that is added last runs first, so pages of other sites are refused before keys are looked at.
    let router = match listener.local_addr().ok().and_then(Guard::of_back_end) {
        None => router,
        Some(guard) => router.layer(middleware::from_fn_with_state(Arc::new(guard), guarded)),
    };
    let service = TowerToHyperService::new(router);
    let builder = longboat_accept::builder(HANDSHAKE_TIMEOUT);
    let accepted = |stream, peer| {
        let (service, shutdown, tls) = (service.clone(), shutdown.clone(), tls.clone());
        let builder = builder.clone();
        async move {
            let answer = |request| service.call(request).map(|Ok(response)| response);
            let accepted = longboat_tls::accept(tls, stream, peer, HANDSHAKE_TIMEOUT, &shutdown);
            if let Some(stream) = accepted.await {
                longboat_accept::serve(stream, &builder, HANDSHAKE_TIMEOUT, &shutdown, answer).await;
            }
        }
    };
    let mut open = longboat_accept::until(&shutdown, listener, MAX_CONNECTIONS, accepted).await;
    if !longboat_accept::drain(&mut open, listening.shutdown_timeout).await {
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
