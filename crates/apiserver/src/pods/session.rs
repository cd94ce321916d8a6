//! A port-forwarding session. Each pair of streams is a connection to a port of the pod.

use std::{collections::HashMap, io, sync::Arc};

use bytes::Bytes;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};

use super::spdy::{Frame, OutboundFrame, Reader, Writer};
use crate::pod_access::{PodAccess, PodRef};

/// The most frames that wait for the socket: enough to keep it busy, and few enough to slow down the pod when the client is
/// slow.
const MAX_OUTGOING_FRAMES: usize = 32;
/// The most frames that wait for the pod, per connection.
const MAX_INCOMING_FRAMES: usize = 16;
/// The most bytes to read from the pod at once.
const CHUNK_BYTES: usize = 32 * 1024;
/// The most connections of one session.
const MAX_CONNECTIONS: usize = 1024;

#[derive(Default)]
struct StreamPair {
    error: Option<u32>,
    data: Option<u32>,
}

struct Connection {
    input: Option<mpsc::Sender<Bytes>>,
    abort: AbortHandle,
}

/// Serves a session until the client leaves.
pub(super) async fn serve<R, W>(
    input: R,
    output: W,
    access: Arc<dyn PodAccess>,
    pod: PodRef,
) -> io::Result<()>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send,
{
    let (sender, frames) = mpsc::channel(MAX_OUTGOING_FRAMES);
    let writing = Writer::new(output).write_all(frames);
    let reading = read(Reader::new(input), sender, access, pod);
    // a client that is gone reads nothing, and a failed write means that the client is gone
    tokio::select! {
        result = reading => result,
        result = writing => result,
    }
}

async fn read<R: AsyncRead + Unpin>(
    mut reader: Reader<R>,
    sender: mpsc::Sender<OutboundFrame>,
    access: Arc<dyn PodAccess>,
    pod: PodRef,
) -> io::Result<()> {
    let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
    let mut pairs: HashMap<String, StreamPair> = HashMap::new();
    let mut connections: HashMap<u32, Connection> = HashMap::new();
    let mut tasks = JoinSet::new();
    while let Some(frame) = reader.next().await? {
        while let Some(ended) = tasks.try_join_next() {
            if let Ok(stream) = ended {
                connections.remove(&stream);
            }
        }
        match frame {
            Frame::Open { stream, headers } => {
                let header = |name: &str| headers.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
                let port = header("port").and_then(|p| p.parse::<u16>().ok()).filter(|p| *p > 0);
                let id = header("requestid").unwrap_or_default().to_owned();
                // A pair whose other stream never comes counts, too.
                let (Some(port), true) = (port, pairs.len() + connections.len() < MAX_CONNECTIONS) else {
                    sender.send(OutboundFrame::Reset { stream }).await.map_err(gone)?;
                    continue;
                };
                sender.send(OutboundFrame::Accept { stream }).await.map_err(gone)?;
                let pair = pairs.entry(id.clone()).or_default();
                match header("streamtype") {
                    Some("error") => pair.error = Some(stream),
                    Some("data") => pair.data = Some(stream),
                    _ => {
                        sender.send(OutboundFrame::Reset { stream }).await.map_err(gone)?;
                        continue;
                    }
                }
                if let StreamPair { error: Some(error), data: Some(data) } = *pair {
                    pairs.remove(&id);
                    let (input, received) = mpsc::channel(MAX_INCOMING_FRAMES);
                    let connection = connect(
                        Arc::clone(&access),
                        pod.clone(),
                        port,
                        data,
                        error,
                        received,
                        sender.clone(),
                    );
                    let abort = tasks.spawn(connection);
                    connections.insert(data, Connection { input: Some(input), abort });
                }
            }
            Frame::Data { stream, data, last } => {
                // ignore data of streams that have ended, and the empty end of error streams
                if let Some(connection) = connections.get_mut(&stream) {
                    if let Some(input) = &connection.input
                        && !data.is_empty()
                        // Without the windows of SPDY, a port that reads slowly holds up the other ports of its session.
                        && input.send(data).await.is_err()
                    {
                        connection.input = None;
                    }
                    if last {
                        connection.input = None;
                    }
                }
            }
            Frame::Reset { stream } => {
                if let Some(connection) = connections.remove(&stream) {
                    connection.abort.abort();
                }
            }
            Frame::Ping(id) => sender.send(OutboundFrame::Pong(id)).await.map_err(gone)?,
            Frame::GoAway => break,
            Frame::Other => {}
        }
    }
    tasks.shutdown().await;
    Ok(())
}

/// Serves one connection. Returns the number of its data stream at the end.
async fn connect(
    access: Arc<dyn PodAccess>,
    pod: PodRef,
    port: u16,
    data: u32,
    error: u32,
    mut input: mpsc::Receiver<Bytes>,
    output: mpsc::Sender<OutboundFrame>,
) -> u32 {
    let mut problem = Bytes::new();
    match access.connect(pod.clone(), port).await {
        Err(refused) => {
            problem =
                Bytes::from(format!("an error occurred forwarding {port} to pod {}: {refused}", pod.name));
        }
        Ok(stream) => {
            let (mut from_pod, mut to_pod) = tokio::io::split(stream);
            let inward = async {
                while let Some(bytes) = input.recv().await {
                    if to_pod.write_all(&bytes).await.is_err() {
                        return;
                    }
                }
                // the client has nothing more to send, but the pod may have; an error means that the pod's side is gone
                let _ = to_pod.shutdown().await;
            };
            let outward = async {
                let mut buffer = vec![0; CHUNK_BYTES];
                loop {
                    match from_pod.read(&mut buffer).await {
                        Ok(0) | Err(_) => return,
                        Ok(read) => {
                            let frame = OutboundFrame::Data {
                                stream: data,
                                data: Bytes::copy_from_slice(&buffer[..read]),
                                last: false,
                            };
                            if output.send(frame).await.is_err() {
                                return;
                            }
                        }
                    }
                }
            };
            tokio::pin!(inward, outward);
            let mut sent = false;
            loop {
                tokio::select! {
                    () = &mut outward => break,
                    () = &mut inward, if !sent => sent = true,
                }
            }
        }
    }
    for (stream, data) in [(data, Bytes::new()), (error, problem)] {
        // an error means that the session is over
        let _ = output.send(OutboundFrame::Data { stream, data, last: true }).await;
    }
    data
}
