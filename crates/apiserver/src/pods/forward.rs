//! `pods/portforward`: upgrades the connection to the port-forwarding protocol.

use std::{io, sync::Arc};

use http::{HeaderValue, Response, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::{session, tunnel};
use crate::{
    answer::{self, Answer},
    pod_access::{PodAccess, PodRef},
    status::ApiError,
    verbs::{Call, pods},
};

/// The supported version of the port-forwarding protocol.
const PROTOCOL: &str = "portforward.k8s.io";
/// The same protocol inside a WebSocket.
const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
/// The most bytes to buffer between the WebSocket and the session, in each direction.
const MAX_BUFFER_BYTES: usize = 64 * 1024;

/// Opens a port-forwarding session.
pub(crate) fn open(call: &Call<'_>) -> Result<Answer, ApiError> {
    let node = pods::connect(call)?;
    let access = pods::access(call, &node)?;
    let request = call.request;
    let upgrade = request.header("upgrade").to_ascii_lowercase();
    let on_upgrade = request
        .upgrade
        .lock()
        .take()
        .ok_or_else(|| ApiError::bad_request("unable to upgrade: missing upgrade headers in request"))?;
    let mut answer = Response::new(answer::full(Vec::new()));
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = answer.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    let tunnelled = match upgrade.as_str() {
        "websocket" => {
            if !offers(request.header("sec-websocket-protocol"), TUNNEL) {
                return Err(ApiError::bad_request(format!(
                    "unable to upgrade: the WebSocket protocol must be {TUNNEL}"
                )));
            }
            let accept = derive_accept_key(request.header("sec-websocket-key").as_bytes());
            headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(TUNNEL));
            if let Ok(accept) = HeaderValue::from_str(&accept) {
                headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
            }
            true
        }
        "spdy/3.1" => {
            let versions = request.header("x-stream-protocol-version");
            if !versions.is_empty() && !offers(versions, PROTOCOL) {
                return Err(ApiError::new(
                    403,
                    "Forbidden",
                    format!(
                        "unable to upgrade: unable to negotiate protocol: client supports [{versions}], server supports [{PROTOCOL}]"
                    ),
                ));
            }
            headers.insert(header::UPGRADE, HeaderValue::from_static("SPDY/3.1"));
            headers.insert("x-stream-protocol-version", HeaderValue::from_static(PROTOCOL));
            false
        }
        _ => {
            return Err(ApiError::bad_request("unable to upgrade: missing upgrade headers in request"));
        }
    };
    let session = run(on_upgrade, tunnelled, access, pods::pod_ref(call));
    let closing = call.state.sessions.closing.clone();
    call.state.sessions.tasks.spawn(async move {
        if let Some(Err(error)) = closing.run_until_cancelled(session).await {
            tracing::debug!(%error, "A port-forwarding session ended.");
        }
    });
    Ok(answer)
}

async fn run(upgrade: OnUpgrade, tunnelled: bool, access: Arc<dyn PodAccess>, pod: PodRef) -> io::Result<()> {
    let socket = TokioIo::new(upgrade.await.map_err(io::Error::other)?);
    if !tunnelled {
        let (input, output) = tokio::io::split(socket);
        return session::serve(input, output, access, pod).await;
    }
    let (near, far) = tokio::io::duplex(MAX_BUFFER_BYTES);
    let (input, output) = tokio::io::split(near);
    let (carried, served) =
        tokio::join!(tunnel::carry(socket, far), session::serve(input, output, access, pod));
    carried.and(served)
}

/// Whether the comma-separated list in a header has this entry.
pub(super) fn offers(header: &str, wanted: &str) -> bool {
    header.split(',').any(|p| p.trim().eq_ignore_ascii_case(wanted))
}
