//! Fetches blocks from the engine that has computed a prompt.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use longboat_accept::KV_TOKEN_VARIABLE;
use longboat_serving::Remote;
use tokio::{io::AsyncReadExt, net::TcpStream};

use super::{
    idle_timeout::before_idle_timeout,
    wire::{Answer, Hello, Key, Shape, TransferAck, receive, send},
};

/// Why blocks cannot be fetched.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error("`{0}` is not a loopback address; KV caches are only fetched from loopback addresses")]
    Address(String),
    #[error("cannot reach the engine at {0}")]
    Connect(SocketAddr, #[source] io::Error),
    #[error("the engine at {0} closed the connection")]
    Broken(SocketAddr, #[source] io::Error),
    #[error("the engine at {0} is not the engine that computed the prompt")]
    OtherEngine(SocketAddr),
    #[error("the engine at {0} has another secret ({token})", token = KV_TOKEN_VARIABLE)]
    Untrusted(SocketAddr),
    #[error("the engine at {0} refuses: {1}")]
    Refused(SocketAddr, String),
    #[error("the engine at {address} has {found} blocks, but the prompt needs {expected}")]
    Blocks { address: SocketAddr, found: usize, expected: usize },
}

/// The blocks to fetch.
pub(super) struct FetchSpec {
    pub(super) shape: Shape,
    /// The hash of the prompt's tokens.
    pub(super) prompt: u64,
    pub(super) blocks: usize,
    /// The number of floats per block.
    pub(super) block_numbers: usize,
}

/// The fetched blocks.
pub(super) struct FetchedBlocks {
    pub(super) numbers: Vec<f32>,
    /// The time until the other engine granted the transfer.
    pub(super) handshake: Duration,
    /// The time from then until all blocks had arrived.
    pub(super) transfer: Duration,
    /// Whether the other engine was told that the blocks have arrived.
    pub(super) acknowledged: bool,
}

/// Fetches the blocks of a prompt.
pub(super) async fn fetch(remote: &Remote, key: &Key, spec: FetchSpec) -> Result<FetchedBlocks, FetchError> {
    let host: IpAddr = remote
        .host
        .parse()
        .ok()
        .filter(IpAddr::is_loopback)
        .ok_or_else(|| FetchError::Address(remote.host.clone()))?;
    let address = SocketAddr::new(host, remote.port);
    let broken = |error| FetchError::Broken(address, error);
    let started = Instant::now();
    let mut stream = before_idle_timeout(TcpStream::connect(address))
        .await
        .map_err(|error| FetchError::Connect(address, error))?;
    let hello: Hello = before_idle_timeout(receive(&mut stream)).await.map_err(broken)?;
    if let Some(mismatch) = hello.mismatch() {
        return Err(FetchError::Refused(address, mismatch));
    }
    if hello.engine != remote.engine {
        return Err(FetchError::OtherEngine(address));
    }
    let FetchSpec { shape, prompt, blocks: expected, block_numbers } = spec;
    let request = key.request(&hello, shape, remote.request.clone(), prompt);
    before_idle_timeout(send(&mut stream, &request)).await.map_err(broken)?;
    let found = match before_idle_timeout(receive(&mut stream)).await.map_err(broken)? {
        Answer::Refused { reason } => return Err(FetchError::Refused(address, reason)),
        Answer::Granted { proof, blocks } if key.verify_grant(&hello, request.nonce(), &proof) => blocks,
        Answer::Granted { .. } => return Err(FetchError::Untrusted(address)),
    };
    // Before anything is allocated, because the count comes from the other engine.
    if found != expected {
        return Err(FetchError::Blocks { address, found, expected });
    }
    let handshake = started.elapsed();
    let mut numbers = Vec::with_capacity(expected * block_numbers);
    let mut bytes = vec![0; block_numbers * size_of::<f32>()];
    for _ in 0..expected {
        before_idle_timeout(stream.read_exact(&mut bytes)).await.map_err(broken)?;
        numbers.extend(bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
    }
    let transfer = started.elapsed().saturating_sub(handshake);
    // All blocks have arrived, so a failure here only means that the other engine keeps them until the lease expires.
    let acknowledged = before_idle_timeout(send(&mut stream, &TransferAck { blocks: found })).await.is_ok();
    Ok(FetchedBlocks { numbers, handshake, transfer, acknowledged })
}
