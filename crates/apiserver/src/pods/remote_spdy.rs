//! An exec session over SPDY/3.1. The client opens one stream each for error, stdin, stdout, stderr and resize.

use std::{collections::HashMap, io, time::Duration};

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
};

use super::{
    spdy::{Frame, OutboundFrame, Reader, Writer},
    streams::{copy_out, ending, size},
};
use crate::pod_access::{ExecOptions, Execution};

/// The most frames that wait for the socket.
const MAX_OUTGOING: usize = 32;
/// How long a client may take to open its streams, as the kubelet's default.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a client may take to close the connection after the session's end.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Serves a session until the process ends or the client leaves. If the client leaves, the process ends.
pub(super) async fn serve<R, W>(
    input: R,
    output: W,
    execution: Execution,
    options: &ExecOptions,
) -> io::Result<()>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
{
    let (sender, frames) = mpsc::channel(MAX_OUTGOING);
    let writing = Writer::new(output).write_all(frames);
    tokio::select! {
        ended = session(Reader::new(input), sender, execution, options) => ended,
        ended = writing => ended,
    }
}

async fn session<R: AsyncRead + Unpin>(
    mut reader: Reader<R>,
    sender: mpsc::Sender<OutboundFrame>,
    execution: Execution,
    options: &ExecOptions,
) -> io::Result<()> {
    let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
    let streams = tokio::time::timeout(OPEN_TIMEOUT, opened(&mut reader, &sender, options)).await;
    let streams = streams.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let stream = |name: &str| streams.get(name).copied();
    let Execution { mut stdin, stdout, stderr, resize, exit } = execution;
    if stream("stdin").is_none() {
        stdin = None;
    }
    let process = async {
        let send = |stream: Option<u32>| {
            let sender = sender.clone();
            move |data: Vec<u8>| {
                let sender = sender.clone();
                async move {
                    let Some(stream) = stream else { return true };
                    sender
                        .send(OutboundFrame::Data { stream, data: Bytes::from(data), last: false })
                        .await
                        .is_ok()
                }
            }
        };
        tokio::join!(copy_out(stdout, send(stream("stdout"))), copy_out(stderr, send(stream("stderr"))),);
        let status = Bytes::from(ending(exit.await).to_string());
        let outputs = [stream("stdout"), stream("stderr")].into_iter().flatten();
        for (stream, data) in
            outputs.map(|stream| (stream, Bytes::new())).chain(stream("error").map(|s| (s, status)))
        {
            sender.send(OutboundFrame::Data { stream, data, last: true }).await.map_err(gone)?;
        }
        // The client closes the connection once it has read everything.
        tokio::time::sleep(CLOSE_TIMEOUT).await;
        Ok(())
    };
    let inward = async {
        while let Some(frame) = reader.next().await? {
            match frame {
                Frame::Data { stream: from, data, last } if Some(from) == stream("stdin") => {
                    let failed = match &mut stdin {
                        Some(input) => input.write_all(&data).await.is_err(),
                        None => false,
                    };
                    // A process that stops reading its input does not end the session.
                    if failed || last {
                        stdin = None;
                    }
                }
                Frame::Data { stream: from, data, .. } if Some(from) == stream("resize") => {
                    if let (Some(resize), Some(size)) = (&resize, size(&data)) {
                        resize(size);
                    }
                }
                Frame::Reset { stream: from } if Some(from) == stream("stdin") => stdin = None,
                Frame::Ping(id) => sender.send(OutboundFrame::Pong(id)).await.map_err(gone)?,
                Frame::GoAway => break,
                // All streams that the options ask for are open.
                Frame::Open { stream, .. } => {
                    sender.send(OutboundFrame::Reset { stream }).await.map_err(gone)?;
                }
                Frame::Data { .. } | Frame::Reset { .. } | Frame::Other => {}
            }
        }
        Ok(())
    };
    tokio::select! {
        ended = process => ended,
        ended = inward => ended,
    }
}

/// Waits for the streams that the client opens. Returns them by name.
async fn opened<R: AsyncRead + Unpin>(
    reader: &mut Reader<R>,
    sender: &mpsc::Sender<OutboundFrame>,
    options: &ExecOptions,
) -> io::Result<HashMap<String, u32>> {
    let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
    let wanted = [true, options.stdin, options.stdout, options.stderr, options.tty];
    let wanted = wanted.into_iter().filter(|wanted| *wanted).count();
    let mut streams = HashMap::new();
    while streams.len() < wanted {
        match reader.next().await? {
            Some(Frame::Open { stream, headers }) => {
                let kind = headers.into_iter().find(|(name, _)| name == "streamtype").map(|(_, kind)| kind);
                match kind.as_deref() {
                    Some("error" | "stdin" | "stdout" | "stderr" | "resize") => {
                        streams.insert(kind.unwrap_or_default(), stream);
                        sender.send(OutboundFrame::Accept { stream }).await.map_err(gone)?;
                    }
                    _ => sender.send(OutboundFrame::Reset { stream }).await.map_err(gone)?,
                }
            }
            Some(Frame::Ping(id)) => sender.send(OutboundFrame::Pong(id)).await.map_err(gone)?,
            Some(Frame::GoAway) | None => return Err(io::ErrorKind::UnexpectedEof.into()),
            Some(Frame::Data { .. } | Frame::Reset { .. } | Frame::Other) => {}
        }
    }
    Ok(streams)
}
