//! TLS of a socket: certificates and demands on clients change without a restart.

use std::{net::SocketAddr, sync::Arc};

use longboat_tls::{ClientCertificates, ServerOptions, TlsError};
use parking_lot::Mutex;
use rustls::ServerConfig;

use crate::tables::SharedTables;

/// The application protocols of a Gateway.
const ALPN: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The TLS configuration of a socket.
pub(crate) struct SocketTls {
    socket: SocketAddr,
    tables: SharedTables,
    current: Mutex<Option<CurrentConfig>>,
}

struct CurrentConfig {
    clients: ClientCertificates,
    config: Arc<ServerConfig>,
}

// === impl SocketTls ===

impl SocketTls {
    pub(crate) fn new(socket: SocketAddr, tables: SharedTables) -> Self {
        Self { socket, tables, current: Mutex::new(None) }
    }

    /// Returns the configuration for the next handshake, which looks up the certificate in the current table. If other clients may
    /// connect than before, it is a new one: with it, nobody resumes a session that began under the former rules.
    pub(crate) fn config(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let clients = self.tables.load().on(self.socket).clients.clone();
        // Held while a configuration is made, so that a burst of handshakes makes one.
        let mut current = self.current.lock();
        if let Some(current) = current.as_ref().filter(|current| current.clients == clients) {
            return Ok(current.config.clone());
        }
        let options = ServerOptions { clients: clients.clone(), ..ServerOptions::with_alpn(&ALPN) };
        let (socket, tables) = (self.socket, self.tables.clone());
        let candidates = move |name: Option<&str>| tables.load().certificates(socket, name);
        let config = longboat_tls::server_config_by_name(&options, candidates)?;
        *current = Some(CurrentConfig { clients, config: config.clone() });
        Ok(config)
    }
}
