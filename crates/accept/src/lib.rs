//! Serves HTTP within limits: of connections, their idle time, unread responses and buffered bodies. It refuses ambiguous requests, and
//! requests from foreign hosts and web pages, and shuts down without cutting responses off. Proxies find here which headers they must not
//! pass on, and their connections to the servers behind them.

mod budget;
mod connector;
mod framing;
mod guard;
mod hop_by_hop;
mod idle;
mod meaning;
mod sending;
mod serve;
mod signals;
mod threads;

use std::{
    future::Future,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

pub use budget::{Budget, MemoryReservation};
pub use connector::{TcpConnector, UPSTREAM_IDLE_TIMEOUT, UpstreamStream};
pub use framing::{FramingStream, ProtocolSwitch};
pub use guard::{Guard, Pages, Refusal, Sender, host_matches, mark_forwarded};
pub use hop_by_hop::{forward_request, lost_codings, remove_hop_by_hop};
pub use meaning::{Ambiguity, host};
pub use sending::{SendDeadline, StreamExecutor, UNREAD_TIMEOUT};
pub use serve::{Builder, MAX_HEAD_BYTES, builder, serve, serve_http1};
pub use signals::shutdown_token;
pub use threads::ConnectionThreads;

/// The variable with the address of a pod on a local node. Each pod has its own loopback address, and its servers listen on that address
/// only.
pub const POD_ADDRESS_VARIABLE: &str = "LONGBOAT_POD_IP";

/// The variable with the secret that engines need to exchange KV caches. A local node gives it to all of its pods.
pub const KV_TOKEN_VARIABLE: &str = "LONGBOAT_KV_TOKEN";

/// The pause after a connection could not be accepted. The process is probably out of file descriptors until other
/// connections end.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// All addresses of this machine: those of IPv6, which include those of IPv4, unless the machine has no IPv6.
pub async fn every_address() -> IpAddr {
    match TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).await {
        Ok(_) => Ipv6Addr::UNSPECIFIED.into(),
        Err(_) => Ipv4Addr::UNSPECIFIED.into(),
    }
}

/// Accepts connections until `end`, at most `limit` at a time; further connections wait in the system's queue. Returns the
/// connections that are still open: dropping them closes them. The port is already closed then.
///
/// Connections have TCP_NODELAY: tokens and pages are small and must not wait for acknowledgements.
pub async fn until<F>(
    end: &CancellationToken,
    listener: TcpListener,
    limit: usize,
    mut connection: impl FnMut(TcpStream, SocketAddr) -> F,
) -> JoinSet<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let spawn = |open: &mut JoinSet<()>, stream, peer| {
        open.spawn(connection(stream, peer));
    };
    accept(end, listener, limit, spawn).await
}

/// Does the work of [`until`], where `spawn` starts the task of a connection.
async fn accept(
    end: &CancellationToken,
    listener: TcpListener,
    limit: usize,
    mut spawn: impl FnMut(&mut JoinSet<()>, TcpStream, SocketAddr),
) -> JoinSet<()> {
    let mut open = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = end.cancelled() => return open,
            // A connection that has ended makes room, also while the branch below is off.
            Some(_) = open.join_next() => continue,
            accepted = listener.accept(), if open.len() < limit => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                // Fails only if the client has left, which the connection notices.
                let _ = stream.set_nodelay(true);
                spawn(&mut open, stream, peer);
            }
            Err(error) => {
                let port = listener.local_addr().map(|address| address.port()).unwrap_or_default();
                tracing::debug!(%error, port, "Cannot accept a connection.");
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
}

/// Waits until all connections have ended, but not longer than `limit`. Returns whether they have.
pub async fn drain(open: &mut JoinSet<()>, limit: Duration) -> bool {
    let ended = async { while open.join_next().await.is_some() {} };
    tokio::time::timeout(limit, ended).await.is_ok()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    /// Sends a greeting, then waits until the peer closes the connection.
    async fn greet(mut stream: TcpStream) {
        stream.write_all(b"!").await.unwrap();
        let _ = stream.read(&mut [0]).await;
    }

    #[tokio::test]
    async fn one_more_than_there_may_be_waits_until_another_one_leaves() {
        let (listener, address) = listener().await;
        let end = CancellationToken::new();
        let stop = end.clone();
        let server = tokio::spawn(async move { until(&end, listener, 1, |stream, _| greet(stream)).await });
        let mut first = TcpStream::connect(address).await.unwrap();
        first.read_exact(&mut [0]).await.unwrap();
        let mut second = TcpStream::connect(address).await.unwrap();
        let mut greeting = [0];
        tokio::select! {
            biased;
            _ = second.read_exact(&mut greeting) => panic!("a second one was let in"),
            () = tokio::time::sleep(Duration::from_millis(50)) => {}
        }
        drop(first);
        second.read_exact(&mut greeting).await.unwrap();
        stop.cancel();
        assert_eq!(server.await.unwrap().len(), 1, "the second one is still open");
    }

    #[tokio::test]
    async fn when_it_has_ended_the_port_is_closed_and_dropping_cuts_what_is_open() {
        let (listener, address) = listener().await;
        let end = CancellationToken::new();
        let stop = end.clone();
        let server = tokio::spawn(async move { until(&end, listener, 8, |stream, _| greet(stream)).await });
        let mut client = TcpStream::connect(address).await.unwrap();
        client.read_exact(&mut [0]).await.unwrap();
        stop.cancel();
        let open = server.await.unwrap();
        assert!(TcpStream::connect(address).await.is_err());
        drop(open);
        assert!(matches!(client.read(&mut [0]).await, Ok(0) | Err(_)));
    }
}
