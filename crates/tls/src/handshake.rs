//! The server's side of a TLS handshake.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::{either::Either, sync::CancellationToken};

/// Returns a connection on which requests can come: the stream itself if the server has no TLS, otherwise the result of [`handshake`].
pub async fn accept<S>(
    config: Option<Arc<ServerConfig>>,
    stream: S,
    peer: SocketAddr,
    limit: Duration,
    shutdown: &CancellationToken,
) -> Option<Either<S, TlsStream<S>>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match config {
        None => Some(Either::Left(stream)),
        Some(config) => handshake(config, stream, peer, limit, shutdown).await.map(Either::Right),
    }
}

/// Completes the handshake that a client begins. Returns `None`, and logs why, if it fails or takes longer than `limit`. Ends at
/// `shutdown`: a server waits for requests then, but not for a client that begins none.
pub async fn handshake<S>(
    config: Arc<ServerConfig>,
    stream: S,
    peer: SocketAddr,
    limit: Duration,
    shutdown: &CancellationToken,
) -> Option<TlsStream<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let handshake = timeout(limit, TlsAcceptor::from(config).accept(stream));
    match shutdown.run_until_cancelled(handshake).await? {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) => tracing::debug!(%error, %peer, "A TLS handshake failed."),
        Err(_) => tracing::debug!(%peer, "A TLS handshake took too long."),
    }
    None
}
