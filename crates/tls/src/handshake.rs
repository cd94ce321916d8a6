//! The server's side of a TLS handshake.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// Completes the handshake that a client begins. Returns `None`, and logs why, if it fails or takes longer than `limit`.
pub async fn handshake<S>(
    config: Arc<ServerConfig>,
    stream: S,
    peer: SocketAddr,
    limit: Duration,
) -> Option<TlsStream<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    match timeout(limit, TlsAcceptor::from(config).accept(stream)).await {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) => tracing::debug!(%error, %peer, "A TLS handshake failed."),
        Err(_) => tracing::debug!(%peer, "A TLS handshake took too long."),
    }
    None
}
