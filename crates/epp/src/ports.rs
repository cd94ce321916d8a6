//! The ports for health checks and for metrics.

use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::Arc,
};

use longboat_extproc::serve_health;
use longboat_tls::KeyPairFiles;
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{args::Args, core::Core, error::Error, health, monitoring::Monitoring, readers::Readers};

/// The ports for health checks and for metrics, and their addresses.
#[derive(Debug)]
pub(crate) struct MonitoringPorts {
    pub(crate) health: (TcpListener, SocketAddr),
    pub(crate) metrics: (TcpListener, SocketAddr),
}

impl MonitoringPorts {
    pub(crate) async fn bind(ip: IpAddr, args: &Args) -> Result<Self, Error> {
        let health = listen(ip, args.grpc_health_port).await?;
        Ok(Self { health, metrics: listen(ip, args.metrics_port).await? })
    }

    /// Serves in `tasks` until `stop`.
    pub(crate) async fn serve(
        self,
        core: &Arc<Core>,
        args: &Args,
        readers: Option<Readers>,
        stop: &CancellationToken,
        tasks: &mut JoinSet<()>,
    ) -> Result<(), Error> {
        let tls = metrics_tls(&args.metrics_cert_dir, stop).await?;
        let monitoring = Monitoring { core: Arc::clone(core), tls, readers };
        tasks.spawn(monitoring.run(self.metrics.0, stop.clone()));
        let serving =
            serve_health(self.health.0, health::check(core, args.ha_enable_leader_election), stop.clone());
        tasks.spawn(async move {
            if let Err(error) = serving.await {
                tracing::error!(%error, "The health server failed.");
            }
        });
        Ok(())
    }
}

pub(crate) async fn listen(ip: IpAddr, port: u16) -> Result<(TcpListener, SocketAddr), Error> {
    let address = SocketAddr::new(ip, port);
    let bind = |source| Error::Bind { address, source };
    let listener = TcpListener::bind(address).await.map_err(bind)?;
    let bound = listener.local_addr().map_err(bind)?;
    Ok((listener, bound))
}

async fn metrics_tls(
    folder: &str,
    stop: &CancellationToken,
) -> Result<Option<Arc<rustls::ServerConfig>>, Error> {
    if folder.is_empty() {
        return Ok(None);
    }
    let options = longboat_tls::ServerOptions::with_alpn(&[b"http/1.1"]);
    let files = KeyPairFiles::of_folder(Path::new(folder));
    files.watch(&options, stop.clone()).await.map(Some).map_err(Error::Tls)
}
