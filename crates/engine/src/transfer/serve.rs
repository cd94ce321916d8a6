//! Serves blocks to other engines.

use std::{io, net::SocketAddr, sync::Arc};

use longboat_accept::KV_TOKEN_VARIABLE;
use parking_lot::RwLock;
use tokio::{
    io::AsyncWriteExt,
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{
    idle_timeout::before_idle_timeout,
    shelf::{Name, Shelf},
    wire::{Answer, Hello, Key, Shape, TransferAck, TransferRequest, receive, send},
};
use crate::cache::{Block, Kv};

/// The most peers at once.
const MAX_CONNECTIONS: usize = 64;
/// The bytes that are copied at once. The engine cannot compute during a copy.
const CHUNK: usize = 4 << 20;

/// The parts that serve blocks.
pub(crate) struct Host {
    pub(super) key: Arc<Key>,
    pub(super) engine: String,
    pub(super) shape: Shape,
    pub(super) shelf: Arc<Shelf>,
    pub(super) kv: Arc<RwLock<Kv>>,
}

/// Serves blocks to authorized engines until the returned tasks are dropped. Binds nothing if this engine does not compute
/// prompts for others.
pub(crate) async fn serve(
    host: Option<(Arc<Host>, SocketAddr)>,
) -> Result<JoinSet<()>, (SocketAddr, io::Error)> {
    let mut tasks = JoinSet::new();
    let Some((host, address)) = host else { return Ok(tasks) };
    let listener = TcpListener::bind(address).await.map_err(|error| (address, error))?;
    tracing::info!(%address, "Serving the KV cache of prompts to other engines.");
    tasks.spawn(async move {
        let never = CancellationToken::new();
        let accepted = |stream, _| Arc::clone(&host).connection(stream);
        let _open = longboat_accept::until(&never, listener, MAX_CONNECTIONS, accepted).await;
    });
    Ok(tasks)
}

// === impl Host ===

impl Host {
    /// Serves one connection.
    async fn connection(self: Arc<Self>, mut stream: TcpStream) {
        if let Err(error) = self.serve(&mut stream).await {
            tracing::warn!(%error, "Could not send the KV cache of a prompt to another engine.");
        }
    }

    async fn serve(self: &Arc<Self>, stream: &mut TcpStream) -> io::Result<()> {
        let hello = Hello::new(&self.engine);
        before_idle_timeout(send(stream, &hello)).await?;
        let ask: TransferRequest = before_idle_timeout(receive(stream)).await?;
        let (name, blocks) = match self.judge(&hello, &ask) {
            Ok(found) => found,
            Err(reason) => {
                before_idle_timeout(send(stream, &Answer::Refused { reason: reason.clone() })).await?;
                return Err(io::Error::other(reason));
            }
        };
        before_idle_timeout(send(stream, &self.key.grant(&hello, &ask, blocks.len()))).await?;
        let at_once = (CHUNK / self.kv.read().block_bytes()).max(1);
        for from in (0..blocks.len()).step_by(at_once) {
            let (host, to) = (Arc::clone(self), blocks.len().min(from + at_once));
            let copying = tokio::task::spawn_blocking(move || host.copy(name, ask.prompt, from..to));
            let bytes = copying.await.map_err(io::Error::other)?;
            let bytes =
                bytes.ok_or_else(|| io::Error::other("it was removed to make room for other prompts"))?;
            before_idle_timeout(stream.write_all(&bytes)).await?;
        }
        let TransferAck { blocks: taken } = before_idle_timeout(receive(stream)).await?;
        // Without this message the blocks stay until they expire, so an engine whose connection broke can fetch them again.
        if taken == blocks.len() {
            self.shelf.forget(name);
        }
        Ok(())
    }

    fn judge(&self, hello: &Hello, ask: &TransferRequest) -> Result<(Name, Vec<Block>), String> {
        if !self.key.trusts_ask(hello, ask) {
            return Err(format!("the other engine has another secret ({KV_TOKEN_VARIABLE})"));
        }
        if let Some(misfit) = ask.shape.misfit(&self.shape) {
            return Err(misfit);
        }
        let gone = || {
            "this engine does not have the KV cache of the prompt: it was already fetched, or it \
                       expired"
        };
        let name = ask.request.parse().map_err(|()| gone().to_owned())?;
        let blocks = self.shelf.find(name, ask.prompt).ok_or_else(|| gone().to_owned())?;
        Ok((name, blocks))
    }

    /// Returns the bytes of a part of a prompt's blocks. Returns `None` if the blocks are no longer kept. Kept blocks do not
    /// change while the cache is locked for reading.
    fn copy(&self, name: Name, prompt: u64, part: std::ops::Range<usize>) -> Option<Vec<u8>> {
        let kv = self.kv.read();
        let blocks = self.shelf.find(name, prompt)?;
        let mut bytes = Vec::with_capacity(part.len() * kv.block_bytes());
        for block in blocks.get(part)? {
            kv.read(*block, &mut bytes);
        }
        Some(bytes)
    }
}
