//! The role `gateway`: a pod of a Gateway. It watches what the Gateway serves, and proxies requests. It writes nothing.
//!
//! It has fewer rights than the gateway of one machine. It may not read Secrets that nobody names: of API keys it knows the copy
//! that the controller has made for its Gateway (`keys/copy.rs`). It runs pickers if the parameters of the Gateway ask for it, and then
//! only those of pools to which its routes lead.

use std::{
    collections::BTreeSet,
    future, io,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kube::Client;
use longboat_epp::host::{Host, Pages};
use longboat_key::{Key, Name, Namespace};
use longboat_telemetry::traces::own_collector;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{
    MONITORING_PORT, Picking, RoutingInputs,
    monitoring::Monitoring,
    picking,
    ports::Ports,
    proxy::Proxy,
    resolved::Resolved,
    route::RouteParser,
    server::ProxyThreads,
    sockets::{Binding, Sockets},
    tables::{SharedTables, Tables},
    watch::{Scope, Watcher},
};

/// Flags of `longboat gateway`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Kubeconfig file. Default: the file in KUBECONFIG, ~/.kube/config, or the service account of the pod.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Namespace of the Gateway.
    #[arg(long, value_name = "NAMESPACE")]
    pub gateway_namespace: Namespace,

    /// Name of the Gateway.
    #[arg(long, value_name = "NAME")]
    pub gateway_name: Name,

    /// Address to listen on. Default: all addresses.
    #[arg(long, value_name = "ADDRESS")]
    pub listen_address: Option<IpAddr>,

    /// Port of /healthz, /readyz and /metrics.
    #[arg(long, default_value_t = MONITORING_PORT, value_name = "PORT")]
    pub monitoring_port: u16,

    /// Where the endpoint pickers of pools run. Those in the gateway have the flags of the pools' own pickers.
    #[arg(long, value_enum, default_value_t = Picking::Pods)]
    pub picking: Picking,

    /// Time after SIGTERM in which connections are still accepted: load balancers need it to learn that the pod ends.
    #[arg(long, default_value = "5s", value_parser = longboat_quantity::duration::parse, value_name = "DURATION")]
    pub shutdown_delay: Duration,

    /// Time after that in which running requests, such as streams, may end.
    #[arg(long, default_value = "5m", value_parser = longboat_quantity::duration::parse, value_name = "DURATION")]
    pub drain_timeout: Duration,
}

/// Of the drain timeout, the time for refusals of requests that still wait for a replica, so that their clients can try another pod.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// Why a pod cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port for probes and metrics is not free.
    #[error("cannot listen on {0} for probes and metrics: {1}; choose another port with --monitoring-port")]
    Monitoring(SocketAddr, #[source] io::Error),
    /// A thread for connections could not be started.
    #[error("cannot start a thread for connections: {0}")]
    Thread(#[source] io::Error),
}

/// Serves a Gateway until `shutdown`, and then until the running requests have ended.
///
/// # Errors
/// [`ServeError`], before anything is served.
pub async fn serve(args: Args, client: Client, shutdown: CancellationToken) -> Result<(), ServeError> {
    let client = longboat_watch::named(client, crate::report::SENDER);
    let address = match args.listen_address {
        Some(address) => address,
        None => longboat_accept::every_address().await,
    };
    let monitoring = SocketAddr::new(address, args.monitoring_port);
    let listener =
        TcpListener::bind(monitoring).await.map_err(|error| ServeError::Monitoring(monitoring, error))?;
    let is_ready = Arc::new(AtomicBool::new(false));
    let [closing, over, end] = std::array::from_fn(|_| CancellationToken::new());
    let tables = SharedTables::default();
    let proxy = Arc::new(Proxy::new(tables.clone(), None, None, over.clone()));
    let pages = (args.picking == Picking::Gateway).then(|| Pages::new(client.clone()));
    // Before anything is watched: probes get an answer even if the API server gives none.
    let served = Monitoring { is_ready: is_ready.clone(), proxy: proxy.clone(), pages };
    let probes = tokio::spawn(served.run(listener, end.clone()));
    let mut pickers = Host::new(client.clone(), proxy.local_pickers(), own_collector());
    let binding = Binding::Pod(address);
    // Kept to the end: upgraded connections run on these threads longer than the sockets.
    let threads = ProxyThreads::start(&proxy).map_err(ServeError::Thread)?;
    let mut sockets =
        Sockets::new(binding, threads.clone(), tables.clone(), args.drain_timeout, closing.clone());
    let own = Key::new(args.gateway_namespace.as_deref(), args.gateway_name.as_deref());
    tracing::info!(gateway = %own, %address, "Serving a Gateway.");
    let mut watcher = Watcher::start(&client, &Scope::Pod(own, args.picking));
    let mut parser = RouteParser::default();
    let mut replace = async |observed: &RoutingInputs, ports: &Ports| {
        let resolved = Resolved::compute(observed, ports, &mut parser).await;
        // Before requests arrive by a new table, so that they find the picker.
        if args.picking == Picking::Gateway {
            pickers.follow(picking::of_cluster(observed, &resolved.pools(observed)));
        }
        Tables::new(observed, ports, &resolved).replace(&tables);
        proxy.metrics.table();
    };
    let follow = async {
        while let Some(observed) = watcher.next(|_| BTreeSet::new()).await {
            sockets.follow(&observed).await;
            sockets.try_again(watcher.source());
            replace(&observed, sockets.ports()).await;
            // A pod whose Gateway is gone has nothing to serve.
            let is_open = sockets.ports().open().next().is_some();
            is_ready.store(!shutdown.is_cancelled() && is_open, Ordering::Release);
        }
    };
    let leave = async {
        shutdown.cancelled().await;
        is_ready.store(false, Ordering::Release);
        tracing::info!(delay = ?args.shutdown_delay, "Shutting down: new connections are accepted for a moment.");
        tokio::time::sleep(args.shutdown_delay).await;
    };
    tokio::select! {
        () = follow => {}
        () = leave => {}
    }
    closing.cancel();
    tracing::info!(limit = ?args.drain_timeout, "Waiting for running requests.");
    let ports = sockets.ports().clone();
    // The loop above may have been dropped between a change and its table.
    watcher.source().wake();
    // Requests that wait for the first replica see it in a new table only.
    let follow = async {
        while let Some(observed) = watcher.next(|_| BTreeSet::new()).await {
            replace(&observed, &ports).await;
        }
        future::pending::<()>().await;
    };
    let refuse = async {
        tokio::time::sleep(args.drain_timeout.saturating_sub(REFUSAL_TIME)).await;
        over.cancel();
        future::pending::<()>().await;
    };
    let ended = async {
        sockets.ended().await;
        proxy.upgraded.close();
        proxy.upgraded.wait().await;
    };
    tokio::select! {
        () = ended => {}
        () = follow => {}
        () = refuse => {}
    }
    // Requests that still wait are refused, and upgraded connections end.
    over.cancel();
    pickers.ended().await;
    end.cancel();
    let _ = probes.await;
    Ok(())
}
