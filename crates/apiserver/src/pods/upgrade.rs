//! Continues the connection of a request as a WebSocket, or as SPDY/3.1 for older clients.

use std::io;

use http::{HeaderValue, Response, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::{
    answer::{self, Answer},
    request::Request,
    status::ApiError,
    verbs::Call,
};

/// The header with the versions of a protocol that a client of SPDY offers.
pub(super) const SPDY_VERSIONS: &str = "x-stream-protocol-version";

/// Whether the client asks for a WebSocket, and not for SPDY.
pub(super) fn is_websocket(request: &Request) -> Result<bool, ApiError> {
    match &*request.header("upgrade").to_ascii_lowercase() {
        "websocket" => Ok(true),
        "spdy/3.1" => Ok(false),
        _ => Err(missing()),
    }
}

/// Returns the connection. It is available after the answer.
pub(super) fn connection(request: &Request) -> Result<OnUpgrade, ApiError> {
    request.upgrade.lock().take().ok_or_else(missing)
}

fn missing() -> ApiError {
    ApiError::bad_request("unable to upgrade: missing upgrade headers in request")
}

/// Whether the comma-separated list in a header has this entry.
pub(super) fn offers(header: &str, wanted: &str) -> bool {
    header.split(',').any(|p| p.trim().eq_ignore_ascii_case(wanted))
}

/// Returns the error for a client that offers none of the known versions.
pub(super) fn no_common_version(offered: &str, known: &[&str]) -> ApiError {
    let known = known.join(" ");
    let message = format!(
        "unable to upgrade: unable to negotiate protocol: client supports [{offered}], server supports [{known}]"
    );
    ApiError::new(403, "Forbidden", message)
}

/// Starts a session on the connection, and returns the answer with which the connection changes its protocol.
pub(super) fn start(
    call: &Call<'_>,
    is_websocket: bool,
    version: &'static str,
    session: impl Future<Output = io::Result<()>> + Send + 'static,
) -> Answer {
    let closing = call.state.sessions.closing.clone();
    call.state.sessions.tasks.spawn(async move {
        if let Some(Err(error)) = closing.run_until_cancelled(session).await {
            tracing::debug!(%error, "A session with a pod ended.");
        }
    });
    let mut answer = Response::new(answer::full(Vec::new()));
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = answer.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    let version = HeaderValue::from_static(version);
    if is_websocket {
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, version);
        let accept = derive_accept_key(call.request.header("sec-websocket-key").as_bytes());
        if let Ok(accept) = HeaderValue::from_str(&accept) {
            headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        }
    } else {
        headers.insert(header::UPGRADE, HeaderValue::from_static("SPDY/3.1"));
        headers.insert(SPDY_VERSIONS, version);
    }
    answer
}
