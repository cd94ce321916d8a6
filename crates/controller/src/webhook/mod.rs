//! The webhook server: HTTPS in front of [`longboat_admission`].
//!
//! Every replica serves, not only the leader. With `--webhook-cert-dir` another program provides the certificate, usually
//! cert-manager, and writes the CA bundle. Without it, [`rotation`] makes a CA, shares it between replicas in a Secret and
//! renews it, and [`inject`] writes its bundle into the webhook configurations and the conversion stanzas of both CRDs.
//!
//! Rights that this needs:
//!
//! | group | resources | names | verbs |
//! |---|---|---|---|
//! | core | secrets, in the system namespace | `llmisvc-webhook-ca` | get, list, watch, update; create for any name |
//! | core | configmaps, in the system namespace | `inferenceservice-config` | get |
//! | admissionregistration.k8s.io | mutatingwebhookconfigurations | `llminferenceservice.serving.kserve.io` | get, list, watch, patch |
//! | admissionregistration.k8s.io | validatingwebhookconfigurations | that, `llminferenceserviceconfig.serving.kserve.io` | get, list, watch, patch |
//! | apiextensions.k8s.io | customresourcedefinitions | our two | get, list, watch, patch |
//! | serving.kserve.io | localmodelcaches, localmodelnamespacecaches, localmodelnodegroups | | list; only where local models are enabled |
//!
//! With `--webhook-cert-dir` it needs only the rows of ConfigMaps and local models.

mod answer;
mod authority;
mod ca_bundle;
mod facts;
mod inject;
mod read_retry;
mod rotation;
mod serve;
pub(crate) mod settings;

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::SystemTime,
};

pub use facts::LiveFacts;
pub use longboat_admission::configurations::{Configurations, configurations};
pub use longboat_api::crd::WebhookTarget;
pub use settings::{Limits, Settings, SettingsError};

use kube::Client;
use longboat_api::names::{WEBHOOK_CA, WEBHOOK_SERVICE};
use longboat_key::Namespace;
use longboat_tls::{KeyPairFiles, LeafRequest};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

use self::{
    answer::WebhookHandler, authority::Lifetimes, facts::Source, inject::Injector,
    rotation::CertificateRotator,
};
use crate::{
    args::Args,
    context::Context,
    error::Error,
    readiness::{CaConsumer, Check, Readiness},
};

pub use rotation::Clock;

/// The webhook server, listening but not serving yet.
pub(crate) struct Webhooks {
    settings: Settings,
    tls: longboat_tls::ServerOptions,
    listener: TcpListener,
    address: SocketAddr,
    clock: Clock,
}

// === impl Webhooks ===

impl Webhooks {
    /// Binds the port. Fails on invalid settings before anything else starts.
    pub(crate) async fn bind(settings: Settings) -> Result<Self, Error> {
        let tls = settings.tls()?;
        let host = match settings.webhook_host {
            Some(host) => host,
            None => longboat_accept::every_address().await,
        };
        let address = SocketAddr::new(host, settings.webhook_port);
        let listen = |source| Error::Listen { what: "webhooks", address: address.to_string(), source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        Ok(Self { settings, tls, listener, address, clock: Arc::new(SystemTime::now) })
    }

    /// The address it listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Replaces the clock, for tests.
    pub(crate) fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// Serves until `shutdown`. Writes go through `client`, also on replicas that do not lead.
    pub(crate) async fn run(
        self,
        client: Client,
        context: Arc<Context>,
        readiness: Readiness,
        shutdown: CancellationToken,
    ) -> Result<(), Error> {
        let mut tasks = JoinSet::new();
        let tls = match &self.settings.webhook_cert_dir {
            Some(dir) => {
                let interval = self.settings.limits.reload;
                let files = KeyPairFiles { interval, ..KeyPairFiles::of_folder(dir) };
                files.watch(&self.tls, shutdown.child_token()).await?
            }
            None => self.own_certificate(&client, &context.args, &readiness, &shutdown, &mut tasks)?,
        };
        let answering =
            WebhookHandler::new(Source::new(context.clone()), context.metrics.clone(), self.settings.limits);
        tracing::info!(address = %self.address, "Serving the webhooks.");
        readiness.done(Check::Webhooks);
        serve::serve(self.listener, tls, answering, self.settings.limits, shutdown).await;
        while tasks.join_next().await.is_some() {}
        Ok(())
    }

    fn own_certificate(
        &self,
        client: &Client,
        args: &Args,
        readiness: &Readiness,
        shutdown: &CancellationToken,
        tasks: &mut JoinSet<()>,
    ) -> Result<Arc<rustls::ServerConfig>, Error> {
        let (sender, bundle) = watch::channel(None);
        let keeper = CertificateRotator::new(
            client,
            args.system_namespace.as_deref(),
            self.names(args.system_namespace.as_deref(), &args.cluster_domain),
            &self.tls,
            Lifetimes::default(),
            self.clock.clone(),
            sender,
        )?;
        let config = keeper.config();
        // A controller that watches only some namespaces may not read these objects; the installation writes the bundle.
        let confined = !args.namespaces.is_empty();
        if confined {
            tracing::info!(
                namespace = &*args.system_namespace,
                secret = WEBHOOK_CA,
                "This controller watches only some namespaces, so it does not write caBundles; copy the CA \
                 from the Secret into the webhook configurations."
            );
        }
        for trusting in CaConsumer::ALL.into_iter().filter(|_| !confined) {
            let injector = Injector::new(client, trusting, readiness.clone(), bundle.clone());
            tasks.spawn(injector.run(shutdown.clone()));
        }
        tasks.spawn(keeper.run(shutdown.clone()));
        Ok(config)
    }

    /// All names under which API servers may reach this server.
    fn names(&self, namespace: Namespace<&str>, domain: &str) -> LeafRequest {
        let host = format!("{WEBHOOK_SERVICE}.{namespace}.svc");
        let mut dns_names = vec![
            host.clone(),
            format!("{host}.{domain}"),
            format!("{WEBHOOK_SERVICE}.{namespace}"),
            "localhost".to_owned(),
        ];
        let mut ips = vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        let bound = self.settings.webhook_host.filter(|host| !host.is_unspecified());
        ips.extend(bound);
        for name in &self.settings.webhook_names {
            match name.parse() {
                Ok(ip) => ips.push(ip),
                Err(_) => dns_names.push(name.clone()),
            }
        }
        // A flag may repeat a name that is in the list.
        dns_names.sort();
        dns_names.dedup();
        ips.sort();
        ips.dedup();
        LeafRequest { common_name: host, dns_names, ips, ..LeafRequest::default() }
    }
}
