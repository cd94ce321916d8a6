//! The controller as a process, which runs reconciles, webhooks and probes concurrently.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use kube::Client;
use longboat_api::names::CONTROLLER_LEASE;
use longboat_key::{Key, Name};
use longboat_lease::Candidate;
use longboat_telemetry::{traces::Otlp, zap::Zap};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    args::Args,
    context::Context,
    election::Election,
    error::Error,
    events,
    fence::Fence,
    health::{self, Listen},
    ignored_flags::IgnoredFlags,
    installed,
    metrics::{Metrics, MetricsSettings, Monitoring},
    outbound,
    readiness::{Check, Readiness},
    run,
    webhook::{Clock, Settings, Webhooks},
};

/// Flags of `longboat controller`.
#[derive(Clone, Debug, clap::Args)]
pub struct ProcessArgs {
    /// Kubeconfig file. Default: the file in KUBECONFIG, ~/.kube/config, or the service account of the pod.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// How services are reconciled.
    #[command(flatten)]
    pub controller: Args,

    /// Which of several replicas reconciles.
    #[command(flatten)]
    pub election: Election,

    /// How webhooks are served.
    #[command(flatten)]
    pub webhook: Settings,

    /// Address of /healthz and /readyz; 0 turns it off.
    #[arg(
        long = "health-probe-addr",
        visible_alias = "health-probe-bind-address",
        default_value_t = Listen::At(":8081".to_owned()),
        value_name = "ADDRESS"
    )]
    pub health: Listen,

    /// How metrics are served.
    #[command(flatten)]
    pub metrics: MetricsSettings,

    /// Log settings, which the program that starts the controller applies.
    #[command(flatten)]
    pub logs: Zap,

    /// Trace settings, which the program that starts the controller applies.
    #[command(flatten)]
    pub traces: Otlp,

    /// Flags of the reference's manager that have no effect.
    #[command(flatten)]
    pub ignored_flags: IgnoredFlags,
}

/// A controller whose ports are bound, and that is not running yet.
pub struct Process {
    args: Args,
    election: Election,
    webhooks: Webhooks,
    probes: Option<TcpListener>,
    monitoring: Option<Monitoring>,
    /// The host of the API server, for the metrics.
    host: Arc<str>,
}

// === impl Process ===

impl Process {
    /// Binds the ports, and checks the settings.
    ///
    /// # Errors
    /// If a port is in use, or flags contradict each other.
    pub async fn bind(args: ProcessArgs) -> Result<Self, Error> {
        for warning in args.ignored_flags.warnings() {
            tracing::warn!("{warning}");
        }
        args.election.check()?;
        longboat_tls::install_default_provider();
        let (tls, namespace) = (args.webhook.tls()?, args.controller.system_namespace.as_deref());
        let monitoring = Monitoring::bind(&args.metrics, &tls, namespace).await?;
        let webhooks = Webhooks::bind(args.webhook).await?;
        let probes = args.health.bind("probes").await?;
        Ok(Self {
            args: args.controller,
            election: args.election,
            webhooks,
            probes,
            monitoring,
            host: "".into(),
        })
    }

    /// The address of the webhooks.
    pub fn webhook_address(&self) -> SocketAddr {
        self.webhooks.address()
    }

    /// The address of the probes, if they are served.
    pub fn health_address(&self) -> Option<SocketAddr> {
        self.probes.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// The address of the metrics, if they are served.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.monitoring.as_ref().and_then(Monitoring::address)
    }

    /// Sets the host of the API server for the metrics.
    #[must_use]
    pub fn with_host(mut self, host: &str) -> Self {
        self.host = host.into();
        self
    }

    /// Replaces the clock that determines when certificates expire.
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.webhooks.set_clock(clock);
        self
    }

    /// Runs until `shutdown`, against the API server behind `client`.
    ///
    /// # Errors
    /// If a part of the controller ends unexpectedly, or the certificate of the webhooks cannot be used.
    pub async fn run(self, client: Client, shutdown: CancellationToken) -> Result<(), Error> {
        let metrics = Metrics::new();
        let counted = |fence| outbound::watched(client.clone(), metrics.clone(), self.host.clone(), fence);
        // All replicas serve webhooks and keep their CA; only the leader reconciles.
        let everybody = counted(None);
        let (sink, notes) = events::channel();
        let writer = tokio::spawn(events::write_all(everybody.clone(), notes));
        let (reconciler, candidate) = if self.election.enabled {
            let fence = Fence::closed();
            let lease = Key::new(self.args.system_namespace.as_deref(), Name(CONTROLLER_LEASE));
            let told = {
                let fence = fence.clone();
                move |until| fence.set(until)
            };
            // The lease is not written through the fence, which opens only after that.
            let timing = self.election.timing();
            let candidate = Candidate::new(everybody.clone(), lease, "", timing, told);
            (counted(Some(fence)), Some(candidate))
        } else {
            (everybody.clone(), None)
        };
        let mut args = self.args;
        if args.image.is_none() {
            let namespace = args.system_namespace.as_deref();
            args.image = installed::image_of_this_pod(&everybody, namespace, &shutdown).await;
        }
        let context = Arc::new(Context::new(reconciler, args, sink, metrics.clone()));
        let readiness = Readiness::default();
        readiness.expect(Check::Caches);
        readiness.expect(Check::Webhooks);
        let (stop, end) = (shutdown.child_token(), CancellationToken::new());
        let probes = self.probes.map(|listener| {
            let (context, readiness) = (context.clone(), readiness.clone());
            tokio::spawn(health::serve(listener, readiness, context, stop.clone(), end.clone()))
        });
        let monitoring = self
            .monitoring
            .map(|port| tokio::spawn(port.serve(context.clone(), everybody.clone(), end.clone())));
        let mut parts = JoinSet::new();
        parts.spawn(self.webhooks.run(everybody.clone(), context.clone(), readiness.clone(), stop.clone()));
        let supervised = (context.clone(), readiness, stop.clone());
        parts.spawn(
            async move { run::supervise(&supervised.0, &supervised.1, candidate, &supervised.2).await },
        );

        let mut result = Ok(());
        while let Some(ended) = parts.join_next().await {
            let ended = ended.unwrap_or_else(|error| Err(Error::Task(error.to_string())));
            // The first failure stops all parts, and is reported.
            if !stop.is_cancelled() {
                stop.cancel();
                result = ended;
            }
        }
        // Only now, so that probes and metrics tell how the shutdown goes on.
        end.cancel();
        for server in [probes, monitoring].into_iter().flatten() {
            let _ = server.await;
        }
        // The last sink is dropped with the context: the writer writes the remaining events, then ends.
        drop(context);
        let _ = tokio::time::timeout(events::SHUTDOWN_TIMEOUT, writer).await;
        result
    }
}
