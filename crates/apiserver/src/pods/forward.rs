//! `pods/portforward`: upgrades the connection to the port-forwarding protocol.

use std::{io, sync::Arc};

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::{
    session, tunnel,
    upgrade::{self, SPDY_VERSIONS, offers},
};
use crate::{
    answer::Answer,
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
    let is_websocket = upgrade::is_websocket(request)?;
    let connection = upgrade::connection(request)?;
    let version = if is_websocket {
        if !offers(request.header("sec-websocket-protocol"), TUNNEL) {
            let message = format!("unable to upgrade: the WebSocket protocol must be {TUNNEL}");
            return Err(ApiError::bad_request(message));
        }
        TUNNEL
    } else {
        let versions = request.header(SPDY_VERSIONS);
        if !versions.is_empty() && !offers(versions, PROTOCOL) {
            return Err(upgrade::no_common_version(versions, &[PROTOCOL]));
        }
        PROTOCOL
    };
    let session = run(connection, is_websocket, access, pods::pod_ref(call));
    Ok(upgrade::start(call, is_websocket, version, session))
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
