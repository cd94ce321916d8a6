//! Connections that change to another protocol, such as WebSocket (RFC 9110 §7.8). The gateway copies their bytes.

use http::{HeaderMap, HeaderValue, Response, StatusCode, header, request::Parts};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use longboat_accept::ProtocolSwitch;
use tokio_util::sync::CancellationToken;

use super::body::ProxyBody;

/// A client's wish to change the protocol.
pub(super) struct Upgrade {
    protocol: HeaderValue,
    client: OnUpgrade,
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

    /// If the back end changes the protocol, connects both sides until one of them closes or `shutdown`. Returns whether it does.
    pub(super) fn connect(
        self,
        response: &mut Response<ProxyBody>,
        switch: &ProtocolSwitch,
        shutdown: CancellationToken,
    ) -> bool {
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return false;
        }
        let Some(server) = response.extensions_mut().remove::<OnUpgrade>() else { return false };
        self.ask(response.headers_mut());
        switch.switch();
        // The task ends with the connections or the gateway, so nobody needs to wait for it.
        tokio::spawn(shutdown.run_until_cancelled_owned(async move {
            let (Ok(client), Ok(server)) = (self.client.await, server.await) else { return };
            let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
            if let Err(error) = tokio::io::copy_bidirectional(&mut client, &mut server).await {
                tracing::debug!(%error, "An upgraded connection ended early.");
            }
        }));
        true
    }
}
