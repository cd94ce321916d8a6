//! The role `longboat apiserver`: a standalone API server, for tests and experiments.

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc};

use clap::Args as ClapArgs;
use longboat_tls::{CertificateAuthority, LeafRequest, TlsError};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{ApiServer, Options, store::JournalError};

/// Arguments of `longboat apiserver`.
#[derive(Debug, Clone, ClapArgs)]
pub struct Args {
    /// Address to listen on; port 0 means any free port.
    #[arg(long, default_value = "127.0.0.1:6443", value_name = "ADDRESS")]
    pub listen: SocketAddr,
    /// File to write the port to when it is open.
    #[arg(long, value_name = "FILE")]
    pub port_file: Option<PathBuf>,
    /// Directory for objects; in memory only if not given.
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Accept requests without authentication. Needs a loopback address to listen on.
    #[arg(long, conflicts_with = "token")]
    pub no_auth: bool,
    /// Bearer token that clients must send. If not given, a random token is created and logged.
    #[arg(long, env = "LONGBOAT_APISERVER_TOKEN", value_name = "TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// Further hostname that clients may use for the server; repeatable.
    #[arg(long = "host", value_name = "NAME")]
    pub hosts: Vec<String>,
    /// Serve HTTPS with a certificate that is created at the start.
    #[arg(long)]
    pub tls: bool,
    /// Delete dependents of deleted owners, and the contents of deleted namespaces, as controllers of Kubernetes do.
    #[arg(long)]
    pub loops: bool,
}

/// Why the role ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The combination of arguments is refused.
    #[error("--no-auth needs a loopback address to listen on, not {0}")]
    OpenToAll(SocketAddr),
    /// The state directory.
    #[error("cannot use the state directory")]
    State(#[source] JournalError),
    /// The socket.
    #[error("cannot listen on {0}")]
    Listen(SocketAddr, #[source] io::Error),
    /// The port file.
    #[error("cannot write {}", .0.display())]
    PortFile(PathBuf, #[source] io::Error),
    /// The certificate.
    #[error("cannot create a certificate")]
    Tls(#[from] TlsError),
}

/// Serves until `shutdown`.
pub async fn run(args: Args, shutdown: CancellationToken) -> Result<(), Error> {
    if args.no_auth && !args.listen.ip().is_loopback() {
        return Err(Error::OpenToAll(args.listen));
    }
    let token =
        (!args.no_auth).then(|| args.token.clone().unwrap_or_else(|| uuid::Uuid::new_v4().to_string()));
    let server = ApiServer::new(Options {
        state: args.state.clone(),
        token: token.clone(),
        hosts: args.hosts.clone(),
        ..Options::default()
    })
    .map_err(Error::State)?;
    let listener =
        TcpListener::bind(args.listen).await.map_err(|source| Error::Listen(args.listen, source))?;
    let address = listener.local_addr().map_err(|source| Error::Listen(args.listen, source))?;
    let tls = if args.tls {
        let authority = CertificateAuthority::new("longboat-apiserver")?;
        let leaf = authority.issue(&LeafRequest {
            common_name: "kubernetes".to_owned(),
            organization: String::new(),
            dns_names: ["localhost", "kubernetes.default.svc"]
                .map(str::to_owned)
                .into_iter()
                .chain(args.hosts.iter().cloned())
                .collect(),
            ips: vec![address.ip()],
            days: 365,
            client_auth: false,
        })?;
        Some(longboat_tls::server_config(&leaf, &[b"h2", b"http/1.1"])?)
    } else {
        None
    };
    let scheme = if tls.is_some() { "https" } else { "http" };
    tracing::info!(url = %format!("{scheme}://{address}"), "The API server is ready.");
    if args.token.is_none()
        && let Some(token) = &token
    {
        tracing::info!(%token, "Clients must send this bearer token.");
    }
    if let Some(file) = &args.port_file {
        std::fs::write(file, address.port().to_string())
            .map_err(|source| Error::PortFile(file.clone(), source))?;
    }
    let server = Arc::new(server);
    let loops = async {
        if args.loops {
            server.run_loops(shutdown.clone()).await;
        }
    };
    tokio::join!(server.serve(listener, tls, shutdown.clone()), loops);
    Ok(())
}
