//! A connection of a caller.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{io::BufReader, net::TcpStream};
use tokio_util::sync::CancellationToken;

use super::{http2, limits::READ_CHUNK_BYTES, options::ServerState, processor::Processor};

/// How long a caller may take for the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The most bytes that a TLS session encrypts before it writes them: all that the connection writes at once. The usual limit
/// of 64 KiB means three system calls instead of one.
const MAX_ENCRYPTED_BYTES: usize = 256 << 10;

/// Serves a connection until it ends.
pub(super) async fn connection<P: Processor>(
    stream: TcpStream,
    peer: SocketAddr,
    shared: Arc<ServerState<P>>,
    shutdown: CancellationToken,
) {
    let Some(tls) = shared.options.tls.clone() else {
        return http2::connection(stream, shared, shutdown).await;
    };
    let stream = BufReader::with_capacity(READ_CHUNK_BYTES, stream);
    let handshake = longboat_tls::handshake(tls, stream, peer, HANDSHAKE_TIMEOUT, &shutdown);
    if let Some(mut stream) = handshake.await {
        stream.get_mut().1.set_buffer_limit(Some(MAX_ENCRYPTED_BYTES));
        http2::connection(stream, shared, shutdown).await;
    }
}
