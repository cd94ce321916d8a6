//! Where a request comes from.

use std::{net::SocketAddr, sync::Arc};

use longboat_accept::ProtocolSwitch;

/// The connection on which a request arrived.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    /// The client's address.
    pub(crate) peer: SocketAddr,
    /// The socket to which the client connected.
    pub(crate) local: SocketAddr,
    /// The name that the client asked for in the TLS handshake; empty if it asked for none. `None` without TLS.
    pub(crate) server_name: Option<Arc<str>>,
    /// Must be switched before the connection changes to another protocol.
    pub(crate) switch: ProtocolSwitch,
}
