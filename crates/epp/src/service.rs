//! Starts and connects the parts of the picker.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use kube::Client;
use longboat_extproc::{Limits, ServerOptions, serve_others};
use longboat_key::{Key, Name, Namespace};
use longboat_lease::Timing;
use longboat_scheduler::{
    Options,
    config::{DataLayer, EndpointPickerConfig, LoadedConfig, load},
    flow, quantity,
};
use longboat_tls::{KeyPair, LeafRequest, ReloadingConfig, ReplaceableConfig};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    args::Args,
    core::{Core, Settings},
    decisions::Decisions,
    discovery::{
        both_groups::Scope,
        file,
        kubernetes::{self, Selection, Source},
        objectives, rewrites,
    },
    error::Error,
    exchange::Picker,
    health::HealthService,
    kv_events,
    latency::{LatencyServers, Predictor},
    lease,
    monitoring::Monitoring,
    readers::Readers,
    scrape::Scraper,
    tokens::{Renderer, TokenSource},
};

const H2: &[&[u8]] = &[b"h2"];
/// Ten years, as in the reference.
const SELF_SIGNED_DAYS: u32 = 3650;
/// The default time to keep serving after SIGTERM. In this time every proxy should see that the picker is not ready.
const DRAIN: Duration = Duration::from_secs(30);
/// How long streams in flight may take to end after the port is closed.
const STREAM_GRACE: Duration = Duration::from_secs(5);

/// A picker whose ports are bound.
#[derive(Debug)]
pub struct Server {
    args: Args,
    core: Arc<Core>,
    layer: DataLayer,
    grpc: TcpListener,
    health: TcpListener,
    metrics: TcpListener,
    events: Vec<kv_events::EventListener>,
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
    longboat_telemetry::logging::init(&args.log_options(), None);
    let mut server = Server::bind(args).await?;
    server.threads = std::thread::available_parallelism().map_or(1, |cores| cores.get().min(MAX_THREADS));
    let client = match server.layer.discovery_file {
        Some(_) => None,
        None => Some(Client::try_default().await.map_err(Error::Cluster)?),
    };
    server.run(client, shutdown).await
}

impl Server {
    /// Reads the configuration and binds the ports. Port 0 binds any free port.
    pub async fn bind(args: Args) -> Result<Self, Error> {
        let text = match args.config_file.as_str() {
            "" => args.config_text.clone(),
            path => tokio::fs::read_to_string(path)
                .await
                .map_err(|source| Error::ConfigFile { path: path.into(), source })?,
        };
        let decisions = args.kept_decisions()?;
        let options = Options { allow_experimental: args.allow_experimental_plugins, trace: decisions > 0 };
        let LoadedConfig { config, layer, scheduler, flow, parsers } =
            load(&text, &args.feature_gates, options)?;
        let layer = with_flags(layer, &config, &args)?;
        args.check(layer.discovery_file.is_some())?;
        for warning in config.deprecations().into_iter().chain(config.warnings()) {
            tracing::warn!("{warning}");
        }
        for warning in args.warnings() {
            tracing::warn!("{warning}");
        }
        let settings = Settings {
            ignore_subset: args.disable_endpoint_subset_filter,
            emit_scores: args.emit_endpoint_scores,
            stale_after: (!layer.disabled).then_some(args.metrics_staleness_threshold),
            max_body: args.max_request_body_size,
            parsers,
            propagate_priority: config.propagates_priority(),
            max_bodies: args.max_request_bytes_in_flight,
            settling: settling(&flow.detector, &args),
            flow,
        };
        let tokenizer = scheduler.tokenizer().cloned();
        let tokenizer = tokenizer.map(|settings| Renderer::new(settings, args.namespace())).transpose()?;
        let asks = tokenizer.is_some();
        let mut core = Core::new(scheduler, settings, &args.pool_name)
            .with_tokens(tokenizer.map(|tokenizer| Arc::new(tokenizer) as Arc<dyn TokenSource>));
        core.decisions = Decisions::new(decisions);
        if args.enable_grpc_stream_metrics {
            core.metrics.count_streams();
        }
        if core.scheduler.latency().is_some() {
            let servers = LatencyServers::read(|name| std::env::var(name).ok())?;
            core.predictor = Some(Predictor::new(servers, args.namespace(), core.metrics.latency.clone()));
        }
        let core = Arc::new(core);
        let ip = args.address()?.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let holdings = core.state.read().holdings();
        if !holdings.is_empty() && !asks {
            tracing::warn!(
                "No token-producer has a tokenizer address (vllm.url), so the precise prefix cache works \
                 only for prompts of token IDs."
            );
        }
        let mut events = Vec::new();
        for holdings in holdings {
            let Some(wanted) = holdings.settings().events.listen.clone() else { continue };
            match kv_events::EventListener::bind(&wanted.address, ip, holdings).await {
                Ok(listening) => events.push(listening),
                Err(error) if wanted.required => return Err(error),
                Err(error) => {
                    tracing::info!(
                        %error,
                        "Cannot accept connections of engines that publish KV cache events."
                    );
                }
            }
        }
        let grpc = listen(ip, args.grpc_port).await?;
        let health = listen(ip, args.grpc_health_port).await?;
        let metrics = listen(ip, args.metrics_port).await?;
        Ok(Self {
            grpc_address: grpc.1,
            health_address: health.1,
            metrics_address: metrics.1,
            grpc: grpc.0,
            health: health.0,
            metrics: metrics.0,
            threads: 0,
            events,
            args,
            core,
            layer,
        })
    }

    /// Serves until shutdown. Without a client, endpoints come from the discovery file.
    pub async fn run(self, client: Option<Client>, shutdown: CancellationToken) -> Result<(), Error> {
        let Self { args, core, layer, grpc, health, metrics, events, threads, .. } = self;
        // Health checks, metrics and discovery keep running while the last streams end.
        let stop = CancellationToken::new();
        let _stop_on_return = stop.clone().drop_guard();
        let mut tasks = JoinSet::new();
        let local = args.address()?.is_some_and(|ip| ip.is_loopback());
        // On a loopback address no drain time is needed: the local gateway notices at once.
        let window = args.drain_timeout.unwrap_or(if local { Duration::ZERO } else { DRAIN });
        let tls = serving_tls(&args, &stop).await?;
        let readers = client.clone().filter(|_| args.metrics_endpoint_auth && !local).map(Readers::new);
        let monitoring = Monitoring {
            core: Arc::clone(&core),
            tls: metrics_tls(&args.metrics_cert_dir, &stop).await?,
            readers,
        };
        tasks.spawn(monitoring.run(metrics, stop.clone()));
        tasks.spawn(serve_health(health, &core, &args, stop.clone()));
        tasks.spawn({
            let (core, stop) = (Arc::clone(&core), stop.clone());
            async move { core.admission.run(&core, stop).await }
        });
        match (&layer.discovery_file, client) {
            (Some(path), _) => {
                tasks.spawn(file::follow(PathBuf::from(path), Arc::clone(&core), stop.clone()));
            }
            (None, Some(client)) => {
                if args.ha_enable_leader_election {
                    core.lead(false);
                    let pool = Key::new(Namespace(args.namespace()), Name(&args.pool_name));
                    let candidate =
                        lease::candidate(client.clone(), &pool, &args.holder(), Timing::default(), &core);
                    tasks.spawn(lease::run(candidate, shutdown.child_token()));
                }
                let scope = Scope { namespace: args.namespace().to_owned(), pool: args.pool_name.clone() };
                let (of_rewrites, watched) = (scope.clone(), Arc::clone(&core));
                tasks.spawn(objectives::follow(client.clone(), scope, Arc::clone(&core), stop.clone()));
                tasks.spawn(rewrites::follow(client.clone(), of_rewrites, watched, stop.clone()));
                tasks.spawn(kubernetes::follow(
                    client,
                    args.namespace().to_owned(),
                    source(&args),
                    Arc::clone(&core),
                    stop.clone(),
                ));
            }
            (None, None) => return Err(Error::NoSource),
        }
        for listening in events {
            tasks.spawn(listening.run(Arc::clone(&core), stop.clone()));
        }
        for holdings in core.state.read().holdings() {
            if let Some(source) = holdings.settings().events.endpoints.clone() {
                let models = Arc::new(kv_events::Models::new(&layer.source.scheme, &scrape_tls(&layer)?));
                let pace = kv_events::Pace::default();
                let followed =
                    kv_events::follow(holdings, source, models, pace, Arc::clone(&core), stop.clone());
                tasks.spawn(followed);
            }
        }
        if let Some(predictor) = &core.predictor {
            tasks.spawn(Arc::clone(predictor).run(stop.clone()));
        }
        if !layer.disabled {
            let interval = match layer.source.interval.as_str() {
                "" => args.refresh_metrics_interval,
                text => longboat_duration::parse(text).map_err(Error::Interval)?,
            };
            let scraper = Scraper { tls: scrape_tls(&layer)?, layer, interval };
            tasks.spawn(scraper.run(Arc::clone(&core), stop.clone()));
        }
        let mut options = ServerOptions {
            tls,
            grace: STREAM_GRACE.max(window),
            // One account for requests, messages that have not come whole, and answers that wait.
            memory: Arc::clone(&core.bodies),
            threads,
            ..ServerOptions::default()
        };
        if let Ok(bytes) = quantity::parse(&args.grpc_max_recv_msg_size) {
            options.max_receive_bytes = bytes;
        }
        if let Ok(bytes) = quantity::parse(&args.grpc_max_send_msg_size) {
            options.max_send_bytes = bytes;
        }
        if args.health_checking {
            let service = HealthService::server(&core, args.ha_enable_leader_election);
            options.others = Some(tonic::service::Routes::new(service));
        }
        let closing = CancellationToken::new();
        core.listening();
        tracing::info!(port = args.grpc_port, pool = args.pool_name, "Serving.");
        let picker = Arc::new(Picker(Arc::clone(&core)));
        let serving = longboat_extproc::serve(grpc, picker, options, closing.clone());
        tokio::pin!(serving);
        tokio::select! {
            served = &mut serving => return served.map_err(Error::Serve),
            () = shutdown.cancelled() => {}
        }
        // The picker first reports that it is not ready, and closes the port later, so that proxies can go elsewhere first.
        core.drain();
        tokio::select! {
            served = &mut serving => return served.map_err(Error::Serve),
            () = tokio::time::sleep(window) => {}
        }
        core.admission.close();
        closing.cancel();
        serving.await.map_err(Error::Serve)?;
        stop.cancel();
        while tasks.join_next().await.is_some() {}
        Ok(())
    }
}

/// The time until the saturation shows that a request has ended. A load that the picker counts itself changes at once. A
/// scraped load changes after the engine has freed its memory and was scraped again.
fn settling(detector: &flow::Detector, args: &Args) -> Duration {
    if detector.leaves().any(|leaf| matches!(leaf, flow::Detector::Utilization { .. })) {
        args.refresh_metrics_interval + args.metrics_staleness_threshold + Duration::from_millis(250)
    } else {
        Duration::from_millis(10)
    }
}

async fn listen(ip: IpAddr, port: u16) -> Result<(TcpListener, SocketAddr), Error> {
    let address = SocketAddr::new(ip, port);
    let bind = |source| Error::Bind { address, source };
    let listener = TcpListener::bind(address).await.map_err(bind)?;
    let bound = listener.local_addr().map_err(bind)?;
    Ok((listener, bound))
}

/// Applies flags of earlier releases to a data layer, where the configuration says nothing.
fn with_flags(mut layer: DataLayer, config: &EndpointPickerConfig, args: &Args) -> Result<DataLayer, Error> {
    let declared = config.plugins.iter().any(|plugin| plugin.plugin_type == "metrics-data-source");
    if !declared {
        if let Some(scheme) = args.model_server_metrics_scheme.as_deref() {
            if !matches!(scheme, "http" | "https") {
                return Err(Error::Scheme(scheme.to_owned()));
            }
            scheme.clone_into(&mut layer.source.scheme);
        }
        if let Some(path) = &args.model_server_metrics_path {
            layer.source.path.clone_from(path);
        }
        if let Some(port) = args.model_server_metrics_port {
            layer.source.port = port;
        }
    }
    Ok(layer)
}

fn source(args: &Args) -> Source {
    if args.pool_name.is_empty() {
        let mut ports = args.endpoint_target_ports.clone();
        ports.dedup();
        Source::Pods(Selection { selector: args.endpoint_selector.clone(), ports })
    } else {
        Source::Pool { group: args.pool_group.clone(), name: args.pool_name.clone() }
    }
}

async fn serving_tls(
    args: &Args,
    stop: &CancellationToken,
) -> Result<Option<Arc<rustls::ServerConfig>>, Error> {
    if !args.secure_serving {
        return Ok(None);
    }
    let client_ca = match args.client_ca_file.as_str() {
        "" => None,
        path => Some(read(path)?),
    };
    let options = longboat_tls::ServerOptions { client_ca, ..longboat_tls::ServerOptions::with_alpn(H2) };
    if let Some(folder) = args.certificate_folder() {
        let reloading = ReloadingConfig::watch(&folder, &options, stop.clone()).await.map_err(Error::Tls)?;
        return Ok(Some(reloading.config()));
    }
    let pair = longboat_tls::self_signed(&LeafRequest {
        common_name: "longboat-epp".to_owned(),
        organization: "Inference Ext".to_owned(),
        dns_names: vec!["localhost".to_owned()],
        days: SELF_SIGNED_DAYS,
        ..LeafRequest::default()
    })
    .map_err(Error::Tls)?;
    ReplaceableConfig::new(&pair, &options).map(|served| Some(served.config())).map_err(Error::Tls)
}

async fn metrics_tls(
    folder: &str,
    stop: &CancellationToken,
) -> Result<Option<Arc<rustls::ServerConfig>>, Error> {
    if folder.is_empty() {
        return Ok(None);
    }
    let options = longboat_tls::ServerOptions::with_alpn(&[b"http/1.1"]);
    let reloading =
        ReloadingConfig::watch(Path::new(folder), &options, stop.clone()).await.map_err(Error::Tls)?;
    Ok(Some(reloading.config()))
}

fn read(path: &str) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::ConfigFile { path: path.into(), source })
}

fn scrape_tls(layer: &DataLayer) -> Result<Arc<rustls::ClientConfig>, Error> {
    let source = &layer.source;
    let config = if source.insecure_skip_verify {
        longboat_tls::insecure_client_config(&[b"http/1.1"])
    } else {
        let pem = read(&source.ca_cert_path)?;
        longboat_tls::client_config(Some(&pem), &[b"http/1.1"]).map_err(Error::Tls)?
    };
    if source.client_cert_path.is_empty() {
        return Ok(config);
    }
    let pair =
        KeyPair { certificate_pem: read(&source.client_cert_path)?, key_pem: read(&source.client_key_path)? };
    longboat_tls::with_client_certificate(&config, &pair).map_err(Error::Tls)
}

fn serve_health(
    listener: TcpListener,
    core: &Arc<Core>,
    args: &Args,
    stop: CancellationToken,
) -> impl Future<Output = ()> + use<> {
    let service = HealthService::server(core, args.ha_enable_leader_election);
    async move {
        let services = tonic::service::Routes::new(service);
        if let Err(error) = serve_others(listener, services, Limits::default(), stop).await {
            tracing::error!(%error, "The health server failed.");
        }
    }
}
