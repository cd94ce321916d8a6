//! The picker of one pool without the ports: what a server puts behind ext_proc, and a gateway calls in its own process.

use std::{net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use kube::Client;
use longboat_extproc::{ClientError, Exchange};
use longboat_key::{Key, Name, Namespace};
use longboat_lease::Timing;
use longboat_scheduler::{
    Options, TokenizerSettings,
    config::{DataLayer, EndpointPickerConfig, LoadedConfig, load},
    flow,
};
use longboat_tls::KeyPair;
use tokio::task::JoinSet;
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
    kv_events::{self, EventListener},
    latency::{LatencyServers, Predictor},
    lease,
    ports::MonitoringPorts,
    request_trace::{self, RequestTrace, TraceFile},
    scrape::Scraper,
    tokens::{Renderer, TokenSource},
};

/// A configuration, the state of its pool, and what keeps this state current: endpoints, objectives, rewrites, scrapes, KV
/// events, flow control.
#[derive(Debug)]
pub struct PoolPicker {
    pub(crate) args: Args,
    pub(crate) core: Arc<Core>,
    pub(crate) layer: DataLayer,
}

impl PoolPicker {
    /// Reads the configuration.
    pub async fn load(args: Args) -> Result<Self, Error> {
        let text = match args.config_file.as_str() {
            "" => args.config_text.clone(),
            path => tokio::fs::read_to_string(path)
                .await
                .map_err(|source| Error::ConfigFile { path: path.into(), source })?,
        };
        let decisions = args.kept_decisions()?;
        let options = Options { allow_experimental: args.allow_experimental_plugins, trace: decisions > 0 };
        let loaded = load(&text, &args.feature_gates, options)?;
        let warnings = loaded.warnings();
        let LoadedConfig { config, layer, scheduler, flow, parsers } = loaded;
        let layer = with_flags(layer, &config, &args)?;
        args.check(layer.discovery_file.is_some())?;
        for warning in config.deprecations().into_iter().chain(warnings) {
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
            settling: saturation_delay(&flow.detector, &args),
            flow,
        };
        let tokenizer = scheduler.tokenizer().cloned();
        let tokenizer = tokenizer.map(|settings| Renderer::new(settings, args.namespace())).transpose()?;
        let mut core = Core::new(scheduler, settings, &args.pool_name);
        core.tokens = tokenizer.map(|tokenizer| Arc::new(tokenizer) as Arc<dyn TokenSource>);
        core.decisions = Decisions::new(decisions);
        if let Some(path) = &args.write_trace {
            let path = request_trace::file_of(path.clone(), args.namespace(), &args.pool_name);
            let trace = RequestTrace::start(TraceFile::new(path.clone(), args.max_trace_size));
            core.trace = Some(trace.map_err(|source| Error::Trace { path, source })?);
        }
        if args.enable_grpc_stream_metrics {
            core.metrics.count_streams();
        }
        if core.scheduler.latency().is_some() {
            let servers = LatencyServers::read(|name| std::env::var(name).ok())?;
            core.predictor = Some(Predictor::new(servers, args.namespace(), core.metrics.latency.clone()));
        }
        if !core.state.read().holdings().is_empty() && core.tokens.is_none() {
            tracing::warn!(
                "No token-producer names a model (modelName), so no tokenizer is asked, and the precise prefix \
                 cache works only for prompts of token IDs."
            );
        }
        Ok(Self { args, core: Arc::new(core), layer })
    }

    /// Opens an exchange for one request. `name` stands for the picker's address in errors.
    ///
    /// # Errors
    ///
    /// If the endpoints of the pool are not known yet.
    pub fn open(&self, name: impl Into<Arc<str>>) -> Result<Exchange, ClientError> {
        Exchange::in_process(&Picker(Arc::clone(&self.core)), name)
    }

    /// Whether requests should come here: the endpoints are known, and among several pickers this one leads.
    pub fn is_serving(&self) -> bool {
        self.core.is_serving()
    }

    /// Keeps the state current until shutdown, for callers in this process. If the flags name the address of a pod, health checks
    /// and metrics are served there.
    ///
    /// # Errors
    ///
    /// If a port cannot be bound, or if a task of the picker panics.
    pub async fn host(&self, client: Client, shutdown: CancellationToken) -> Result<(), Error> {
        let stop = CancellationToken::new();
        let _stop_on_return = stop.clone().drop_guard();
        let address = self.args.address()?;
        let every = longboat_accept::every_address().await;
        let events = self.event_listeners(address.unwrap_or(every)).await?;
        let mut tasks = JoinSet::new();
        if let Some(ip) = address {
            let ports = MonitoringPorts::bind(ip, &self.args).await?;
            ports.serve(&self.core, &self.args, None, &stop, &mut tasks).await?;
        }
        self.follow(Some(client), events, &shutdown, &stop, &mut tasks)?;
        self.core.listening();
        tracing::info!(pool = self.args.pool_name, "Picking in this process.");
        let failed = shutdown.run_until_cancelled(first_panic(&mut tasks)).await;
        // Waiting requests are refused before the dispatcher ends, or they would wait for their clients to give up. The trace is closed
        // last, because requests in flight still write to it.
        self.core.drain();
        self.core.admission.close();
        stop.cancel();
        while tasks.join_next().await.is_some() {}
        self.core.close_trace();
        failed.map_or(Ok(()), Err)
    }

    /// Binds the ports to which engines connect that publish KV cache events.
    pub(crate) async fn event_listeners(&self, ip: IpAddr) -> Result<Vec<EventListener>, Error> {
        let holdings = self.core.state.read().holdings();
        let mut events = Vec::new();
        for holdings in holdings {
            let Some(wanted) = holdings.settings().events.listen.clone() else { continue };
            match EventListener::bind(&wanted.address, ip, holdings).await {
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
        Ok(events)
    }

    /// Starts the tasks that keep the state current until `stop`. The election, if there is one, ends at `shutdown`. Without a
    /// client, endpoints come from the discovery file.
    pub(crate) fn follow(
        &self,
        client: Option<Client>,
        events: Vec<EventListener>,
        shutdown: &CancellationToken,
        stop: &CancellationToken,
        tasks: &mut JoinSet<()>,
    ) -> Result<(), Error> {
        let Self { args, core, layer } = self;
        tasks.spawn({
            let (core, stop) = (Arc::clone(core), stop.clone());
            async move { core.admission.run(&core, stop).await }
        });
        match (&layer.discovery_file, client) {
            (Some(path), _) => {
                tasks.spawn(file::follow(PathBuf::from(path), Arc::clone(core), stop.clone()));
            }
            (None, Some(client)) => {
                if args.ha_enable_leader_election {
                    core.lead(false);
                    let pool = Key::new(Namespace(args.namespace()), Name(&args.pool_name));
                    let candidate =
                        lease::candidate(client.clone(), &pool, &args.holder(), Timing::default(), core);
                    tasks.spawn(lease::run(candidate, shutdown.child_token()));
                }
                let scope = Scope { namespace: args.namespace().to_owned(), pool: args.pool_name.clone() };
                let follow =
                    objectives::follow(client.clone(), scope.clone(), Arc::clone(core), stop.clone());
                tasks.spawn(follow);
                tasks.spawn(rewrites::follow(client.clone(), scope, Arc::clone(core), stop.clone()));
                tasks.spawn(kubernetes::follow(
                    client,
                    args.namespace().to_owned(),
                    source(args),
                    Arc::clone(core),
                    stop.clone(),
                ));
            }
            (None, None) => return Err(Error::NoSource),
        }
        for listening in events {
            tasks.spawn(listening.run(Arc::clone(core), stop.clone()));
        }
        for holdings in core.state.read().holdings() {
            if let Some(source) = holdings.settings().events.endpoints.clone() {
                let models = Arc::new(kv_events::Models::new(&layer.source.scheme, &scrape_tls(layer)?));
                let limits = kv_events::ReplayLimits::default();
                let followed =
                    kv_events::follow(holdings, source, models, limits, Arc::clone(core), stop.clone());
                tasks.spawn(followed);
            }
        }
        if let Some(predictor) = &core.predictor {
            tasks.spawn(Arc::clone(predictor).run(stop.clone()));
        }
        if !layer.disabled {
            let interval = match layer.source.interval.as_str() {
                "" => args.scrape_interval(),
                // Shorter than the flag's would be no use: that is how often endpoints are looked at.
                text => longboat_quantity::duration::parse(text)
                    .map_err(Error::Interval)?
                    .max(args.scrape_interval()),
            };
            let scraper = Scraper { tls: scrape_tls(layer)?, layer: layer.clone(), interval };
            tasks.spawn(scraper.run(Arc::clone(core), stop.clone()));
        }
        Ok(())
    }
}

/// Waits until one of the tasks panics. Those that end well are no news: an election may be over before its picker is.
pub(crate) async fn first_panic(tasks: &mut JoinSet<()>) -> Error {
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            return Error::Task(error);
        }
    }
    std::future::pending().await
}

/// Returns what a picker with these flags needs from its own pod, or `None` if another process can run it. A configuration that
/// does not load needs its own process too, which ends with the error. Without an address of the pod, the other process is that
/// of a network: it sends no prompts to addresses that somebody else's configuration names.
pub fn needs_pod(args: &Args) -> Option<&'static str> {
    if !args.config_file.is_empty() {
        return Some("the file of its configuration");
    }
    if args.write_trace.is_some() {
        return Some("the file of its trace");
    }
    if !args.metrics_cert_dir.is_empty() {
        return Some("the certificate of its metrics port");
    }
    let options = Options { allow_experimental: args.allow_experimental_plugins, trace: false };
    let Ok(LoadedConfig { layer, scheduler, .. }) = load(&args.config_text, &args.feature_gates, options)
    else {
        return Some("a configuration that loads");
    };
    let DataLayer { source, discovery_file, .. } = &layer;
    if discovery_file.is_some() {
        return Some("the file of its endpoints");
    }
    if [&source.ca_cert_path, &source.client_cert_path].iter().any(|path| !path.is_empty()) {
        return Some("the certificates for metrics of engines");
    }
    if scheduler.latency().is_some() {
        return Some("the latency predictor beside it");
    }
    if scheduler.tokenizer().is_some_and(is_of_pod) {
        return Some("the tokenizer beside it, or the certificates for it");
    }
    if args.bind_address.is_empty() && scheduler.tokenizer().is_some() {
        return Some("the network of its namespace, to reach its tokenizer");
    }
    let listens = |holdings: &Arc<longboat_scheduler::Holdings>| holdings.settings().events.listen.is_some();
    if args.bind_address.is_empty() && scheduler.state().holdings().iter().any(listens) {
        return Some("the address to which engines publish KV cache events");
    }
    None
}

/// Whether a tokenizer listens in the picker's pod, or is verified with certificates that the pod's environment names.
fn is_of_pod(tokenizer: &TokenizerSettings) -> bool {
    let host = tokenizer.url.split_once("://").map_or("", |(_, rest)| rest);
    tokenizer.url.starts_with("https://")
        || ["localhost", "127.", "[::1]"].iter().any(|own| host.starts_with(own))
}

/// The time until the saturation shows that a request has ended. A load that the picker counts itself changes at once. A
/// scraped load changes after the engine has freed its memory and was scraped again.
fn saturation_delay(detector: &flow::Detector, args: &Args) -> Duration {
    if detector.leaves().any(|leaf| matches!(leaf, flow::Detector::Utilization { .. })) {
        args.scrape_interval() + args.metrics_staleness_threshold + Duration::from_millis(250)
    } else {
        Duration::from_millis(10)
    }
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
        Source::Pods(Selection { selector: args.endpoint_selector.clone(), ports: args.target_ports() })
    } else {
        Source::Pool { group: args.pool_group.clone(), name: args.pool_name.clone() }
    }
}

pub(crate) fn read(path: &str) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::ConfigFile { path: path.into(), source })
}

fn scrape_tls(layer: &DataLayer) -> Result<Arc<rustls::ClientConfig>, Error> {
    let source = &layer.source;
    let config = if source.insecure_skip_verify {
        longboat_tls::insecure_client_config(&[b"http/1.1"])
    } else {
        let pem = read(&source.ca_cert_path)?;
        longboat_tls::client_config(&pem, &[b"http/1.1"]).map_err(Error::Tls)?
    };
    if source.client_cert_path.is_empty() {
        return Ok(config);
    }
    let pair =
        KeyPair { certificate_pem: read(&source.client_cert_path)?, key_pem: read(&source.client_key_path)? };
    longboat_tls::with_client_certificate(&config, &pair).map_err(Error::Tls)
}
