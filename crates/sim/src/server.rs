//! The process: listening, TLS, and an end without cutting answers short.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::middleware;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto::Builder, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::{Simulator, args::Args, identity::Identity};

const ALPN: &[&[u8]] = &[b"h2", b"http/1.1"];
/// Clients at once: far more than an engine works for.
const CONNECTIONS: usize = 8192;
/// How long a handshake may take, and a client that has connected may say nothing.
const PATIENCE: Duration = Duration::from_mins(2);

/// The simulator cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The address is taken or not ours.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where it was to listen.
        address: SocketAddr,
        /// The operating system's reason.
        #[source]
        source: std::io::Error,
    },
    /// The certificate or its key cannot be used.
    #[error("cannot serve TLS")]
    Tls(#[from] longboat_tls::TlsError),
    /// A file of the pair cannot be read.
    #[error("cannot read `{path}`")]
    Read {
        /// The file as given.
        path: String,
        /// The operating system's reason.
        #[source]
        source: std::io::Error,
    },
}

/// Listens as the arguments say and serves until `shutdown`; then takes no new request and lets running ones finish
/// for `--shutdown-timeout`.
pub async fn run(args: Args, shutdown: CancellationToken) -> Result<(), RunError> {
    let address = SocketAddr::new(args.host, args.port);
    let listener = TcpListener::bind(address).await.map_err(|source| RunError::Listen { address, source })?;
    serve(args, listener, shutdown).await
}

/// Serves on a listener that exists already.
pub async fn serve(args: Args, listener: TcpListener, shutdown: CancellationToken) -> Result<(), RunError> {
    let tls = match &args.certificate {
        None => None,
        Some((certificate, key)) => {
            let read = async |path: &std::path::Path| {
                let failed = |source| RunError::Read { path: path.display().to_string(), source };
                tokio::fs::read_to_string(path).await.map_err(failed)
            };
            let pair = longboat_tls::KeyPair {
                certificate_pem: read(certificate).await?,
                key_pem: read(key).await?,
            };
            Some(TlsAcceptor::from(longboat_tls::server_config(&pair, ALPN)?))
        }
    };
    if !args.ignored.is_empty() {
        tracing::info!(flags = args.ignored.join(" "), "These flags have no effect in the simulator.");
    }
    let address = listener.local_addr().ok();
    tracing::info!(
        ?address, model = args.model, names = ?args.served_names,
        "Serving simulated answers: no model is loaded and no weights are read.",
    );
    let patience = args.shutdown_timeout;
    let identity = Identity::from_env(args.port());
    let simulator = Arc::new(Simulator::new(args));
    let _events = simulator
        .publish(&shutdown)
        .await
        .map_err(|(address, source)| RunError::Listen { address, source })?;
    let router = longboat_serving::router(simulator)
        .layer(middleware::map_response(move |response| std::future::ready(identity.mark(response))));
    let service = TowerToHyperService::new(router);
    let connections = GracefulShutdown::new();
    let accepted = |stream, _| {
        let (service, watcher, tls) = (service.clone(), connections.watcher(), tls.clone());
        async move {
            match tls {
                None => connection(stream, service, watcher).await,
                Some(tls) => match tokio::time::timeout(PATIENCE, tls.accept(stream)).await {
                    Ok(Ok(stream)) => connection(stream, service, watcher).await,
                    Ok(Err(error)) => tracing::debug!(%error, "A TLS handshake failed."),
                    Err(_) => tracing::debug!("A TLS handshake took too long."),
                },
            }
        }
    };
    let _open = longboat_accept::until(&shutdown, listener, CONNECTIONS, accepted).await;
    if tokio::time::timeout(patience, connections.shutdown()).await.is_err() {
        tracing::warn!("Cut the requests that outlasted the shutdown timeout.");
    }
    Ok(())
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    service: TowerToHyperService<axum::Router>,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(error, "A connection ended early.");
    }
}
