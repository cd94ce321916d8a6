//! Start and shutdown of a local cluster: API server, controller, gateway and node in one process.

use std::{
    collections::BTreeSet,
    io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use kube::Client;
use longboat_api::{conversion, v1alpha2::GROUP};
use longboat_apiserver::ApiServer;
use longboat_gateway::{Gateway, Guard, Keys, Picking, Queue, QueueSample, Routes, ScaleTarget};
use longboat_key::{Key, Name, Namespace};
use longboat_manifest::Document;
use longboat_node::{ApiAccess, Node, NodeError, NodeHandle, QueueMetrics, Sample};
use longboat_tls::{LeafRequest, TlsError};
use tokio::{net::TcpListener, sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    DEFAULT_NAMESPACE,
    addresses::Block,
    admission::OwnKinds,
    apply::{self, AppliedDocument, ApplyError},
    bootstrap::{self, BootstrapError},
    controller,
    identity::Identity,
    kubeconfig::kubeconfig,
    shared_picker,
    stand_in::{self, StandInError, Substitution},
    state::{StateDir, StateError, create_private, write_private},
    unsupported::UnsupportedKinds,
};

/// Options of a local cluster.
#[derive(Debug, Clone)]
pub struct Options {
    /// Port of the gateway on 127.0.0.1; 0 for any free port.
    pub port: u16,
    /// Port of the API server on 127.0.0.1; 0 for any free port.
    pub api_port: u16,
    /// The folder that keeps objects after the process ends. If `None`, a temporary folder is used, and removed at the end.
    pub state: Option<PathBuf>,
    /// The options of the node. Its folder, its addresses and its access to the API server and to the gateway are those of the
    /// cluster.
    pub node: longboat_node::Options,
    /// Where pickers run.
    pub picking: Picking,
    /// Hosts and origins that may use the gateway, besides programs and web pages of this machine.
    pub guard: Guard,
}

/// Why a local cluster cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The state folder cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// A port is not available.
    #[error("cannot listen on 127.0.0.1:{port} for the {what}")]
    Port {
        /// `gateway` or `API server`.
        what: &'static str,
        /// The port.
        port: u16,
        /// The operating system's reason.
        #[source]
        source: io::Error,
    },
    /// All blocks of loopback addresses are in use.
    #[error("no loopback addresses are left: 32 `longboat up` are running on this machine")]
    Addresses,
    /// The objects of an earlier run cannot be read.
    #[error("cannot restore the objects of an earlier run")]
    Journal(#[from] longboat_apiserver::store::JournalError),
    /// The certificate of the API server cannot be created.
    #[error("cannot create the certificate of the API server")]
    Tls(#[from] TlsError),
    /// The server refused the initial objects.
    #[error("cannot create the first objects")]
    Bootstrap(#[from] BootstrapError),
    /// The node cannot start.
    #[error("cannot start the node")]
    Node(#[from] NodeError),
}

/// A running local cluster.
pub struct Local {
    state: StateDir,
    /// The loopback addresses of pods and Services. They are released after all tasks have ended.
    addresses: Block,
    client: Client,
    kubeconfig: PathBuf,
    gateway_address: SocketAddr,
    gateway: Gateway,
    node: NodeHandle,
    tasks: JoinSet<()>,
    /// Stops the controller and the API server.
    shutdown: CancellationToken,
}

/// The time that processes get to end by themselves.
const GRACE: Duration = Duration::from_secs(3);

// === impl Local ===

impl Local {
    /// Starts the cluster. When this returns, manifests can be applied.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        longboat_tls::install_default_provider();
        let state = StateDir::open(options.state.as_deref())?;
        let (gateway_listener, gateway_address) = listen("gateway", options.port).await?;
        let identity = Identity::of(&state)?;
        let (api_listener, api_address) = listen_for_api(options.api_port, identity.port).await?;
        identity.store(&state, api_address.port())?;

        let addresses = Block::claim().ok_or(StartError::Addresses)?;
        let objects = options.state.is_some().then(|| state.path().join("objects"));
        if let Some(objects) = &objects {
            create_private(objects)?;
        }
        let server = ApiServer::new(longboat_apiserver::Options {
            state: objects,
            token: Some(identity.token.clone()),
            service_range: addresses.services(),
            pods_need_accounts: true,
            ..longboat_apiserver::Options::default()
        })?;
        server.add_admission(Arc::new(OwnKinds::new(server.client(DEFAULT_NAMESPACE))));
        server.add_admission(Arc::new(UnsupportedKinds));
        server.convert_with(GROUP, |object, version| {
            conversion::convert_to(object, version).map_err(|error| error.to_string())
        });
        let pair = identity.authority.issue(&LeafRequest {
            common_name: "kube-apiserver".into(),
            dns_names: vec!["localhost".into(), "kubernetes.default.svc".into()],
            ips: vec![Ipv4Addr::LOCALHOST.into()],
            // The certificate is new at each start.
            days: 365,
            ..LeafRequest::default()
        })?;
        let tls = longboat_tls::server_config(&pair, &[b"h2", b"http/1.1"])?;

        let shutdown = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let (api, stop) = (server.clone(), shutdown.clone());
        tasks.spawn(async move { api.serve(api_listener, Some(tls), stop).await });
        let (api, stop) = (server.clone(), shutdown.clone());
        tasks.spawn(async move { api.run_loops(stop).await });
        let client = longboat_watch::named(server.client(DEFAULT_NAMESPACE), apply::Owner::Up.manager());
        bootstrap::install(&client, gateway_address).await?;

        let ca_pem = identity.authority.pem();
        let access = ApiAccess { url: format!("https://{api_address}"), ca_pem: Some(ca_pem.clone()) };
        let kubeconfig_path = state.path().join("kubeconfig");
        let config = kubeconfig(&access.url, &ca_pem, &identity.token, DEFAULT_NAMESPACE);
        write_private(&kubeconfig_path, &format!("{config:#}\n"))?;
        // Before the node, whose autoscalers read the gateway's queue.
        let gateway = longboat_gateway::start(
            client.clone(),
            gateway_listener,
            addresses.gateways(),
            options.guard,
            options.picking,
        )
        .map_err(|source| StartError::Port { what: "gateway", port: options.port, source })?;
        let mut node_options = options.node;
        node_options.state_dir = state.path().to_owned();
        node_options.api = access;
        node_options.gateway_picks = options.picking == Picking::Gateway;
        node_options.queue = queue_metrics(gateway.queue());
        node_options.address_range = addresses.pods();
        node_options.remove_state_dir = state.is_temporary();
        let node = Node::start(client.clone(), node_options).await?;
        server.set_pod_access(node.pod_access());
        tasks.spawn(shared_picker::run(client.clone(), shutdown.clone()));
        tasks.spawn(controller::run(longboat_controller::Args::default(), client.clone(), shutdown.clone()));
        Ok(Self {
            state,
            addresses,
            client,
            kubeconfig: kubeconfig_path,
            gateway_address,
            gateway,
            node,
            tasks,
            shutdown,
        })
    }

    /// Creates substitutes for missing platform objects to which the user's objects refer, such as Gateways.
    pub async fn stand_in(&self, documents: &[Document]) -> Result<Substitution, StandInError> {
        stand_in::make(&self.client, documents, self.gateway_address).await
    }

    /// Writes the user's objects. Writes an object before the objects that refer to it.
    pub async fn apply(&self, documents: &[Document]) -> Result<Vec<AppliedDocument>, ApplyError> {
        apply::all(&self.client, documents).await
    }

    /// Returns a client of the API server.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns the routes that the gateway serves.
    pub fn routes(&self) -> Routes {
        self.gateway.routes()
    }

    /// Returns the API keys of the gateway, and what they have used.
    pub fn keys(&self) -> Keys {
        self.gateway.keys()
    }

    /// Returns what the node pretends to have because pods ask for it: labels as `key=value`, and `taint key=value:effect`.
    pub fn stood_in_for(&self) -> watch::Receiver<BTreeSet<String>> {
        self.node.stood_in_for()
    }

    /// Returns why the paths of volumes are rewritten in all pods, or `None` if pods have mount namespaces.
    pub fn rewritten(&self) -> Option<&str> {
        self.node.rewritten()
    }

    /// Returns the path of the kubeconfig, for `export KUBECONFIG=…`.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Returns the address of the gateway.
    pub fn gateway_address(&self) -> SocketAddr {
        self.gateway_address
    }

    /// Stops everything, and removes a temporary state folder.
    pub async fn shutdown(mut self) {
        // The controller stops first, so that it does not react to the end of the pods.
        self.shutdown.cancel();
        let node = self.node.shutdown(GRACE);
        let gateway = self.gateway.shutdown();
        tokio::join!(node, gateway);
        let end_all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(GRACE, end_all).await.is_err() {
            tracing::warn!("Some tasks did not end in time.");
            self.tasks.abort_all();
        }
        drop((self.addresses, self.state));
    }
}

/// Shows autoscalers how many requests wait in the gateway for their workload.
fn queue_metrics(queue: Queue) -> QueueMetrics {
    QueueMetrics::new(move |kind, namespace, name| {
        let key = Key::new(Namespace(namespace), Name(name));
        let series = queue.samples_for(&ScaleTarget { kind: kind.to_owned(), key });
        let sample = |series: QueueSample| Sample {
            name: series.name.to_owned(),
            labels: series.labels.into_iter().map(|(label, value)| (label.to_owned(), value)).collect(),
            value: u32::try_from(series.value).map_or(f64::from(u32::MAX), f64::from),
        };
        series.into_iter().map(sample).collect()
    })
}

/// Listens on the port that the user names. Otherwise on that of the earlier run, which clients know, if it is still free.
async fn listen_for_api(port: u16, earlier: u16) -> Result<(TcpListener, SocketAddr), StartError> {
    if port == 0
        && let Ok(listening) = listen("API server", earlier).await
    {
        return Ok(listening);
    }
    listen("API server", port).await
}

async fn listen(what: &'static str, port: u16) -> Result<(TcpListener, SocketAddr), StartError> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
    let bound = bound.and_then(|listener| listener.local_addr().map(|address| (listener, address)));
    bound.map_err(|source| StartError::Port { what, port, source })
}
