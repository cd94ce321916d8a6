//! Connections that change to another protocol, such as WebSocket (RFC 9110 §7.8). The gateway copies their bytes.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use http::{HeaderMap, HeaderValue, Response, StatusCode, header, request::Parts};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use longboat_accept::{ProtocolSwitch, UNREAD_TIMEOUT};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::{
    io::{InspectReader, InspectWriter},
    sync::CancellationToken,
    task::TaskTracker,
};

use super::{authorize::Admission, body::ProxyBody, deadline::BACK_END_IDLE_TIMEOUT};

/// A client's wish to change the protocol.
pub(super) struct Upgrade {
    protocol: HeaderValue,
    client: OnUpgrade,
}

/// The bytes that one side has sent and taken.
#[derive(Default)]
struct SideBytes {
    sent: AtomicU64,
    taken: AtomicU64,
}

/// Copies the bytes of both sides until both have ended, no byte has come for one to two times [`BACK_END_IDLE_TIMEOUT`], or one side has
/// taken nothing of what the other has sent for one to two times [`UNREAD_TIMEOUT`].
async fn copy(
    client: impl AsyncRead + AsyncWrite + Unpin,
    server: impl AsyncRead + AsyncWrite + Unpin,
) -> io::Result<()> {
    let (of_client, of_server) = (SideBytes::default(), SideBytes::default());
    let (mut client, mut server) = (of_client.count(client), of_server.count(server));
    let sent = || Some([&of_client, &of_server].map(|side| side.sent.load(Ordering::Relaxed)));
    let timed_out = |message| Err(io::Error::new(io::ErrorKind::TimedOut, message));
    tokio::select! {
        // Polled first, so that the counts below have what comes now.
        biased;
        copied = tokio::io::copy_bidirectional(&mut client, &mut server) => copied.map(drop),
        () = unchanged_for(BACK_END_IDLE_TIMEOUT, sent) => timed_out("neither side has sent anything"),
        () = unchanged_for(UNREAD_TIMEOUT, || of_client.waits_for(&of_server)) => timed_out("the client does not read"),
        () = unchanged_for(UNREAD_TIMEOUT, || of_server.waits_for(&of_client)) => timed_out("the back end does not read"),
    }
}

/// Returns when a value was the same for a time. Only looked at now and then, so that no byte moves a timer.
async fn unchanged_for<T: PartialEq>(time: Duration, value: impl Fn() -> Option<T>) {
    let mut before = None;
    loop {
        let now = value();
        if now.is_some() && now == before {
            return;
        }
        before = now;
        tokio::time::sleep(time).await;
    }
}

// === impl SideBytes ===

impl SideBytes {
    /// Counts the bytes that pass through the connection to this side.
    fn count(&self, stream: impl AsyncRead + AsyncWrite + Unpin) -> impl AsyncRead + AsyncWrite + Unpin {
        let add = |count: &AtomicU64, bytes: &[u8]| {
            count.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        };
        let reader = InspectReader::new(stream, move |bytes: &[u8]| add(&self.sent, bytes));
        InspectWriter::new(reader, move |bytes: &[u8]| add(&self.taken, bytes))
    }

    /// How much this side has taken, if the peer has sent more.
    fn waits_for(&self, peer: &Self) -> Option<u64> {
        let taken = self.taken.load(Ordering::Relaxed);
        (taken < peer.sent.load(Ordering::Relaxed)).then_some(taken)
    }
}

// === impl Upgrade ===

impl Upgrade {
    /// Takes the wish from a request. `None` if there is none, or if it is for HTTP/2: a client can have that without a back end, and the
    /// requests of such a connection would pass the gateway unseen.
    pub(super) fn take(head: &mut Parts) -> Option<Self> {
        let protocol = head.headers.get(header::UPGRADE)?.clone();
        let is_http = |name: &str| name.trim().to_ascii_lowercase().starts_with("h2");
        if protocol.to_str().is_ok_and(|list| list.split(',').any(is_http)) {
            return None;
        }
        let names = head.headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
        names.flat_map(|list| list.split(',')).find(|name| name.trim().eq_ignore_ascii_case("upgrade"))?;
        Some(Self { protocol, client: head.extensions.remove()? })
    }

    /// Adds the wish to the request for the back end.
    pub(super) fn ask(&self, headers: &mut HeaderMap) {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, self.protocol.clone());
    }

    /// If the back end changes the protocol, connects both sides until they close, are silent for long, or `shutdown`, as a task of
    /// `connections`. Returns whether it does. The admission of the request then ends with the connection.
    pub(super) fn connect(
        self,
        response: &mut Response<ProxyBody>,
        admission: &mut Option<Admission>,
        switch: &ProtocolSwitch,
        connections: &TaskTracker,
        shutdown: CancellationToken,
    ) -> bool {
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return false;
        }
        let Some(server) = response.extensions_mut().remove::<OnUpgrade>() else { return false };
        self.ask(response.headers_mut());
        // Before the response leaves: what the client then sends is no request.
        switch.switch();
        let admission = admission.take();
        connections.spawn(shutdown.run_until_cancelled_owned(async move {
            let _running = admission;
            let (Ok(client), Ok(server)) = (self.client.await, server.await) else { return };
            if let Err(error) = copy(TokioIo::new(client), TokioIo::new(server)).await {
                tracing::debug!(%error, "An upgraded connection ended early.");
            }
        }));
        true
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_tunnel_ends_when_neither_side_sends_anything_and_not_while_one_does() {
        let (mut client, left) = tokio::io::duplex(64);
        let (mut server, right) = tokio::io::duplex(64);
        let tunnel = tokio::spawn(copy(left, right));
        for _ in 0..9 {
            server.write_all(b"x").await.unwrap();
            assert_eq!(client.read_u8().await.unwrap(), b'x');
            tokio::time::sleep(BACK_END_IDLE_TIMEOUT * 3 / 4).await;
        }
        assert_eq!(tunnel.await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!([client.read(&mut [0]).await.unwrap(), server.read(&mut [0]).await.unwrap()], [0, 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_tunnel_ends_when_a_side_sends_and_does_not_read() {
        for swapped in [false, true] {
            let (mut client, left) = tokio::io::duplex(64);
            let (mut server, right) = tokio::io::duplex(64);
            let tunnel =
                if swapped { tokio::spawn(copy(right, left)) } else { tokio::spawn(copy(left, right)) };
            server.write_all(&[b'x'; 65]).await.unwrap();
            for _ in 0..3 {
                assert!(!tunnel.is_finished());
                client.write_all(b"x").await.unwrap();
                server.read_u8().await.unwrap();
                tokio::time::sleep(UNREAD_TIMEOUT).await;
            }
            assert_eq!(tunnel.await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        }
    }
}
