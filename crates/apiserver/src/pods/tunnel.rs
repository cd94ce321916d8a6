//! A byte stream inside the binary messages of a WebSocket.

use std::io;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        protocol::{Role, WebSocketConfig},
    },
};

/// The largest message in bytes: kubectl sends at most 32 KiB at a time.
const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// Returns the server's side of a WebSocket whose handshake is over.
pub(super) async fn websocket<S: AsyncRead + AsyncWrite + Unpin>(socket: S) -> WebSocketStream<S> {
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES));
    WebSocketStream::from_raw_socket(socket, Role::Server, Some(config)).await
}

/// Copies bytes between a WebSocket and `inner`, in both directions, until one of them ends.
pub(super) async fn carry<S, T>(socket: S, inner: T) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite,
{
    let (mut outgoing, mut incoming) = websocket(socket).await.split();
    let (mut from_inner, mut to_inner) = tokio::io::split(inner);
    let inward = async {
        while let Some(message) = incoming.next().await {
            match message.map_err(io::Error::other)? {
                Message::Binary(bytes) => to_inner.write_all(&bytes).await?,
                Message::Close(_) => break,
                // the library answers pings
                _ => {}
            }
        }
        to_inner.shutdown().await
    };
    let outward = async {
        let mut buffer = vec![0; 32 * 1024];
        loop {
            let read = from_inner.read(&mut buffer).await?;
            if read == 0 {
                break;
            }
            let message = Message::Binary(Bytes::copy_from_slice(&buffer[..read]));
            outgoing.send(message).await.map_err(io::Error::other)?;
        }
        outgoing.close().await.map_err(io::Error::other)
    };
    tokio::select! {
        result = inward => result,
        result = outward => result,
    }
}
