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
    leases::{Leases, TransferId},
    wire::{Answer, Hello, Key, Shape, TransferAck, TransferRequest, receive, send},
};
use crate::cache::{Block, Kv};

/// The most peers at once.
const MAX_CONNECTIONS: usize = 64;
/// The bytes that are copied at once. The engine cannot compute during a copy.
const CHUNK_BYTES: usize = 4 << 20;

/// Serves the leased blocks.
pub(crate) struct BlockServer {
    pub(super) key: Arc<Key>,
    pub(super) engine_id: String,
    pub(super) shape: Shape,
    pub(super) leases: Arc<Leases>,
    pub(super) kv: Arc<RwLock<Kv>>,
}

/// Serves blocks to authorized engines until the returned tasks are dropped. Binds nothing if this engine does not compute
/// prompts for others.
pub(crate) async fn serve(
    server: Option<(Arc<BlockServer>, SocketAddr)>,
) -> Result<JoinSet<()>, (SocketAddr, io::Error)> {
    let mut tasks = JoinSet::new();
    let Some((server, address)) = server else { return Ok(tasks) };
    let listener = TcpListener::bind(address).await.map_err(|error| (address, error))?;
    tracing::info!(%address, "Serving the KV cache of prompts to other engines.");
    tasks.spawn(async move {
        let never = CancellationToken::new();
        let accepted = |stream, _| Arc::clone(&server).connection(stream);
        let _open = longboat_accept::until(&never, listener, MAX_CONNECTIONS, accepted).await;
    });
    Ok(tasks)
}

// === impl BlockServer ===

impl BlockServer {
    /// Serves one connection.
    async fn connection(self: Arc<Self>, mut stream: TcpStream) {
        if let Err(error) = self.serve(&mut stream).await {
            tracing::warn!(%error, "Could not send the KV cache of a prompt to another engine.");
        }
    }

    async fn serve(self: &Arc<Self>, stream: &mut TcpStream) -> io::Result<()> {
        let hello = Hello::new(&self.engine_id);
        before_idle_timeout(send(stream, &hello)).await?;
        let request: TransferRequest = before_idle_timeout(receive(stream)).await?;
        let (id, blocks) = match self.authorize(&hello, &request) {
            Ok(leased) => leased,
            Err(reason) => {
                before_idle_timeout(send(stream, &Answer::Refused { reason: reason.clone() })).await?;
                return Err(io::Error::other(reason));
            }
        };
        before_idle_timeout(send(stream, &self.key.grant(&hello, &request, blocks.len()))).await?;
        let chunk_blocks = (CHUNK_BYTES / self.kv.read().block_bytes()).max(1);
        for from in (0..blocks.len()).step_by(chunk_blocks) {
            let (server, to) = (Arc::clone(self), blocks.len().min(from + chunk_blocks));
            let copying = tokio::task::spawn_blocking(move || server.copy(id, request.prompt, from..to));
            let bytes = copying.await.map_err(io::Error::other)?;
            let bytes =
                bytes.ok_or_else(|| io::Error::other("it was removed to make room for other prompts"))?;
            before_idle_timeout(stream.write_all(&bytes)).await?;
        }
        let TransferAck { blocks: received } = before_idle_timeout(receive(stream)).await?;
        // Without this message the lease goes on until it expires, so an engine whose connection broke can fetch them again.
        if received == blocks.len() {
            self.leases.end(id);
        }
        Ok(())
    }

    fn authorize(
        &self,
        hello: &Hello,
        request: &TransferRequest,
    ) -> Result<(TransferId, Vec<Block>), String> {
        if !self.key.verify_request(hello, request) {
            return Err(format!("the other engine has another secret ({KV_TOKEN_VARIABLE})"));
        }
        if let Some(mismatch) = request.shape.mismatch(&self.shape) {
            return Err(mismatch);
        }
        let id: Option<TransferId> = request.request.parse().ok();
        let leased = id.and_then(|id| Some((id, self.leases.find(id, request.prompt)?)));
        leased.ok_or_else(|| {
            "this engine does not have the KV cache of the prompt: it was already fetched, or it expired"
                .into()
        })
    }

    /// Returns the bytes of a part of a prompt's blocks. Returns `None` if the lease has ended. Leased blocks do not
    /// change while the cache is locked for reading.
    fn copy(&self, id: TransferId, prompt: u64, part: std::ops::Range<usize>) -> Option<Vec<u8>> {
        let kv = self.kv.read();
        let blocks = self.leases.find(id, prompt)?;
        let mut bytes = Vec::with_capacity(part.len() * kv.block_bytes());
        for block in blocks.get(part)? {
            kv.read(*block, &mut bytes);
        }
        Some(bytes)
    }
}
