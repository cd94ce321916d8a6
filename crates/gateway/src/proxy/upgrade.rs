//! Connections that change to another protocol, such as WebSocket (RFC 9110 §7.8). The gateway copies their bytes.

use std::{
    io,
    sync::atomic::{AtomicU64, Ordering},
};

use http::{HeaderMap, HeaderValue, Response, StatusCode, header, request::Parts};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use longboat_accept::ProtocolSwitch;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::{io::InspectReader, sync::CancellationToken, task::TaskTracker};

use super::{authorize::Admission, body::ProxyBody, deadline::BACK_END_IDLE_TIMEOUT};

/// A client's wish to change the protocol.
pub(super) struct Upgrade {
    protocol: HeaderValue,
    client: OnUpgrade,
}

/// Copies the bytes of both sides until both have ended, or no byte has come for one to two times [`BACK_END_IDLE_TIMEOUT`].
async fn copy(
    client: impl AsyncRead + AsyncWrite + Unpin,
    server: impl AsyncRead + AsyncWrite + Unpin,
) -> io::Result<()> {
    // Only counted, so that no byte moves a timer.
    let reads = AtomicU64::new(0);
    let count = |_: &[u8]| {
        reads.fetch_add(1, Ordering::Relaxed);
    };
    let (mut client, mut server) = (InspectReader::new(client, count), InspectReader::new(server, count));
    let idle = async {
        let mut before = None;
        loop {
            let now = Some(reads.load(Ordering::Relaxed));
            if std::mem::replace(&mut before, now) == now {
                return;
            }
            tokio::time::sleep(BACK_END_IDLE_TIMEOUT).await;
        }
    };
    tokio::select! {
        // Polled first, so that the count below has what comes now.
        biased;
        copied = tokio::io::copy_bidirectional(&mut client, &mut server) => copied.map(drop),
        () = idle => Err(io::Error::new(io::ErrorKind::TimedOut, "neither side has sent anything")),
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
}
