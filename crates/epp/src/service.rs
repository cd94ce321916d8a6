//! Starts and connects the parts of the picker.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use kube::Client;
use longboat_api::shared_picker::MANAGER;
use longboat_extproc::ServerOptions;
use longboat_scheduler::quantity;
use longboat_telemetry::traces::own_collector;
use longboat_tls::{ClientCertificates, KeyPairFiles, LeafRequest, ReplaceableConfig};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    args::Args,
    error::Error,
    exchange::Picker,
    health,
    kv_events::EventListener,
    pool_picker::{PoolPicker, first_panic, needs_pod, read},
    ports::{MonitoringPorts, listen},
    readers::Readers,
};

const H2: &[&[u8]] = &[b"h2"];
/// Ten years, as in the reference.
const SELF_SIGNED_DAYS: u32 = 3650;
/// The default time to keep serving after SIGTERM. In this time every proxy should see that the picker is not ready.
const DRAIN: Duration = Duration::from_secs(30);
/// How long streams in flight may take to end after the port is closed.
const STREAM_TIMEOUT: Duration = Duration::from_secs(5);

/// A picker whose ports are bound.
#[derive(Debug)]
pub struct Server {
    picker: PoolPicker,
    grpc: TcpListener,
    ports: MonitoringPorts,
    events: Vec<EventListener>,
    /// The address of ext_proc.
    pub grpc_address: SocketAddr,
    /// The address of health checks.
    pub health_address: SocketAddr,
    /// The address of metrics.
    pub metrics_address: SocketAddr,
    /// The number of threads for streams, in addition to the caller's. With 0, the caller's runtime serves the streams.
    pub threads: usize,
}

/// The most threads for streams. More threads would wait for each other, because requests update shared state.
const MAX_THREADS: usize = 4;

/// Creates the runtime for [`run`]. It has one thread for everything but streams, which have their own threads. The picker's
/// tasks are short, and moving a task to another thread costs more than running it.
pub fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// Runs the picker until shutdown, with the cluster of KUBECONFIG or the cluster that the pod runs in.
pub async fn run(args: Args, shutdown: CancellationToken) -> Result<(), Error> {
    longboat_tls::install_default_provider();
    // The gateway of local mode sends no traces.
    let traces = args.tracing && own_collector().is_some();
    if args.gateway_picks && needs_pod(&args).is_none() && !traces {
        return run_standby(args, shutdown).await;
    }
    let mut server = Server::bind(args).await?;
    server.threads = std::thread::available_parallelism().map_or(1, |cores| cores.get().min(MAX_THREADS));
    let client = match server.picker.layer.discovery_file {
        Some(_) => None,
        None => Some(longboat_watch::client().await.map_err(Error::Cluster)?),
    };
    server.run(client.map(|client| longboat_watch::named(client, MANAGER)), shutdown).await
}

/// Leaves the picking to the gateway, which answers on the ports of this pod. A configuration that does not load ends the process
/// here, as it would end a picker.
async fn run_standby(args: Args, shutdown: CancellationToken) -> Result<(), Error> {
    let pool = args.pool_name.clone();
    PoolPicker::load(args).await?;
    tracing::info!(pool, "The gateway picks in its own process, so this process only keeps the pod running.");
    shutdown.cancelled().await;
    Ok(())
}

impl Server {
    /// Reads the configuration and binds the ports. Port 0 binds any free port.
    pub async fn bind(args: Args) -> Result<Self, Error> {
        let ip = match args.address()? {
            Some(ip) => ip,
            None => longboat_accept::every_address().await,
        };
        let picker = PoolPicker::load(args).await?;
        let events = picker.event_listeners(ip).await?;
        let grpc = listen(ip, picker.args.grpc_port).await?;
        let ports = MonitoringPorts::bind(ip, &picker.args).await?;
        Ok(Self {
            grpc_address: grpc.1,
            health_address: ports.health.1,
            metrics_address: ports.metrics.1,
            grpc: grpc.0,
            ports,
            threads: 0,
            events,
            picker,
        })
    }

    /// Serves until shutdown. Without a client, endpoints come from the discovery file.
    ///
    /// # Errors
    ///
    /// If a task that keeps the state current panics, or if the server cannot be started.
    pub async fn run(self, client: Option<Client>, shutdown: CancellationToken) -> Result<(), Error> {
        self.run_with(client, shutdown, JoinSet::new()).await
    }

    /// Serves until shutdown, and does the given tasks meanwhile.
    pub(crate) async fn run_with(
        self,
        client: Option<Client>,
        shutdown: CancellationToken,
        mut tasks: JoinSet<()>,
    ) -> Result<(), Error> {
        let Self { picker, grpc, ports, events, threads, .. } = self;
        // Health checks, metrics and discovery keep running while the last streams end.
        let stop = CancellationToken::new();
        let _stop_on_return = stop.clone().drop_guard();
        let local = picker.args.address()?.is_some_and(|ip| ip.is_loopback());
        // On a loopback address no drain time is needed: the local gateway notices at once.
        let window = picker.args.drain_timeout.unwrap_or(if local { Duration::ZERO } else { DRAIN });
        let tls = serving_tls(&picker.args, &stop).await?;
        let readers =
            client.clone().filter(|_| picker.args.metrics_endpoint_auth && !local).map(Readers::new);
        ports.serve(&picker.core, &picker.args, readers, &stop, &mut tasks).await?;
        picker.follow(client, events, &shutdown, &stop, &mut tasks)?;
        let PoolPicker { args, core, .. } = picker;
        let usual = ServerOptions::default();
        let options = ServerOptions {
            tls,
            grace: STREAM_TIMEOUT.max(window),
            // One account for requests, messages that have not come whole, and answers that wait.
            memory: Arc::clone(&core.bodies),
            threads,
            max_receive_bytes: quantity::parse(&args.grpc_max_recv_msg_size)
                .unwrap_or(usual.max_receive_bytes),
            max_send_bytes: quantity::parse(&args.grpc_max_send_msg_size).unwrap_or(usual.max_send_bytes),
            health: args.health_checking.then(|| health::check(&core, args.ha_enable_leader_election)),
            ..usual
        };
        let closing = CancellationToken::new();
        core.listening();
        tracing::info!(port = args.grpc_port, pool = args.pool_name, "Serving.");
        let picker = Arc::new(Picker(Arc::clone(&core)));
        let serving = longboat_extproc::serve(grpc, picker, options, closing.clone());
        tokio::pin!(serving);
        // A process that ends is started again. One that goes on without a task would pick by state that no longer changes.
        tokio::select! {
            served = &mut serving => return served.map_err(Error::Serve),
            failed = first_panic(&mut tasks) => return Err(failed),
            () = shutdown.cancelled() => {}
        }
        // The picker first reports that it is not ready, and closes the port later, so that proxies can go elsewhere first.
        core.drain();
        tokio::select! {
            served = &mut serving => return served.map_err(Error::Serve),
            () = tokio::time::sleep(window) => {}
        }
        // Waiting requests are refused while their streams can still bring the answer.
        core.admission.close();
        closing.cancel();
        serving.await.map_err(Error::Serve)?;
        stop.cancel();
        while tasks.join_next().await.is_some() {}
        core.close_trace();
        Ok(())
    }
}

async fn serving_tls(
    args: &Args,
    stop: &CancellationToken,
) -> Result<Option<Arc<rustls::ServerConfig>>, Error> {
    if !args.secure_serving {
        return Ok(None);
    }
    let clients = match args.client_ca_file.as_str() {
        "" => ClientCertificates::None,
        path => ClientCertificates::SignedBy(read(path)?.into()),
    };
    let options = longboat_tls::ServerOptions { clients, ..longboat_tls::ServerOptions::with_alpn(H2) };
    if let Some(folder) = args.certificate_folder() {
        let files = KeyPairFiles::of_folder(&folder);
        return files.watch(&options, stop.clone()).await.map(Some).map_err(Error::Tls);
    }
    self_signed(&options).map(Some)
}

/// TLS with a certificate that nobody has signed.
pub(crate) fn self_signed_tls() -> Result<Arc<rustls::ServerConfig>, Error> {
    self_signed(&longboat_tls::ServerOptions::with_alpn(H2))
}

fn self_signed(options: &longboat_tls::ServerOptions) -> Result<Arc<rustls::ServerConfig>, Error> {
    let pair = longboat_tls::self_signed(&LeafRequest {
        common_name: "longboat-epp".to_owned(),
        organization: "Inference Ext".to_owned(),
        dns_names: vec!["localhost".to_owned()],
        days: SELF_SIGNED_DAYS,
        ..LeafRequest::default()
    })
    .map_err(Error::Tls)?;
    ReplaceableConfig::new(&pair, options).map(|served| served.config()).map_err(Error::Tls)
}
