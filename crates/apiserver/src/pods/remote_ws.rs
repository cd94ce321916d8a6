//! An exec session over a WebSocket: the first byte of each message is its channel.

use std::io;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
};
use tokio_tungstenite::tungstenite::{
    Message, Utf8Bytes,
    protocol::{CloseFrame, frame::coding::CloseCode},
};

use super::{
    streams::{copy_out, ending, size},
    tunnel::websocket,
};
use crate::pod_access::Execution;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
/// In v5, the channel on which the client closes another channel; the next byte names that channel.
const CLOSE: u8 = 255;

/// The most messages that wait for the socket.
const MAX_OUTGOING: usize = 16;

/// Serves a session until the process ends or the client leaves. If the client leaves, the process ends.
pub(super) async fn serve<S>(socket: S, execution: Execution) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut outgoing, mut incoming) = websocket(socket).await.split();
    let Execution { mut stdin, stdout, stderr, resize, exit } = execution;
    let (sender, mut messages) = mpsc::channel::<Vec<u8>>(MAX_OUTGOING);

    let inward = async {
        while let Some(message) = incoming.next().await {
            let bytes = match message.map_err(io::Error::other)? {
                Message::Binary(bytes) => bytes,
                Message::Text(text) => Bytes::from(text),
                Message::Close(_) => return Ok(()),
                // The library answers pings.
                _ => continue,
            };
            match bytes.split_first() {
                Some((&STDIN, data)) => {
                    let failed = match &mut stdin {
                        Some(input) => input.write_all(data).await.is_err(),
                        None => false,
                    };
                    // A process that stops reading its input does not end the session.
                    if failed {
                        stdin = None;
                    }
                }
                Some((&RESIZE, data)) => {
                    if let (Some(resize), Some(size)) = (&resize, size(data)) {
                        resize(size);
                    }
                }
                Some((&CLOSE, [STDIN])) => stdin = None,
                _ => {}
            }
        }
        Ok::<_, io::Error>(())
    };
    let process = async {
        let send = |channel: u8| {
            let sender = sender.clone();
            move |data: Vec<u8>| {
                let sender = sender.clone();
                async move {
                    let mut message = Vec::with_capacity(data.len() + 1);
                    message.push(channel);
                    message.extend(data);
                    sender.send(message).await.is_ok()
                }
            }
        };
        tokio::join!(copy_out(stdout, send(STDOUT)), copy_out(stderr, send(STDERR)));
        let status = ending(exit.await).to_string().into_bytes();
        send(ERROR)(status).await;
        drop(sender);
        // The client closes the connection first.
        std::future::pending::<()>().await;
    };
    let outward = async {
        while let Some(message) = messages.recv().await {
            outgoing.send(Message::Binary(message.into())).await.map_err(io::Error::other)?;
        }
        // Without this close code, clients treat the end as a failure and lose the last messages.
        let end = CloseFrame { code: CloseCode::Normal, reason: Utf8Bytes::default() };
        outgoing.send(Message::Close(Some(end))).await.map_err(io::Error::other)
    };
    tokio::select! {
        ended = inward => ended,
        ended = outward => ended,
        () = process => Ok(()),
    }
}
