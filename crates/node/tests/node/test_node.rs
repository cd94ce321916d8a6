//! An API server and a node for the tests, with helper functions.

use std::fmt::Debug;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use longboat_apiserver::ApiServer;
use longboat_apiserver::pod_access::{LogOptions, PodRef};
use longboat_node::{ApiAccess, Node, NodeHandle, Options};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// A generous timeout for slow machines that run many tests at once.
const PATIENCE: Duration = Duration::from_mins(1);

/// The script of [`super::roles`]. It is written before any test starts a process: one that another thread starts meanwhile would inherit
/// the open file, and a file that is open for writing cannot be run.
static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("node");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("longboat");
    std::fs::write(&path, super::roles::script()).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
});

pub(crate) struct TestNode {
    pub(crate) server: ApiServer,
    pub(crate) client: Client,
    pub(crate) dir: tempfile::TempDir,
    node: Option<NodeHandle>,
    network: Network,
    cancel: CancellationToken,
}

/// The addresses of one world. Tests that run at the same time on one machine must not share addresses.
#[derive(Clone, Copy)]
struct Network {
    /// The first and the last one.
    pods: [Ipv4Addr; 2],
    services: Ipv4Addr,
}

impl Network {
    fn next() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let process = u8::try_from(std::process::id() % 64).unwrap();
        let world = u8::try_from(NEXT.fetch_add(1, Ordering::Relaxed) % 250).unwrap();
        Self {
            pods: [1, 250].map(|host| Ipv4Addr::new(127, 100 + process, world, host)),
            services: Ipv4Addr::new(127, 164 + process, world, 0),
        }
    }
}

impl TestNode {
    pub(crate) async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// Starts a world whose node has options other than the defaults.
    pub(crate) async fn with(change: impl FnOnce(&mut Options)) -> Self {
        Self::beside(longboat_apiserver::Options::default(), change).await
    }

    /// Starts a world whose API server refuses pods without a service account.
    pub(crate) async fn with_accounts() -> Self {
        let server = longboat_apiserver::Options {
            pods_need_accounts: true,
            ..longboat_apiserver::Options::default()
        };
        Self::beside(server, |_| {}).await
    }

    async fn beside(server: longboat_apiserver::Options, change: impl FnOnce(&mut Options)) -> Self {
        let network = Network::next();
        let service_range = (network.services, 24);
        let server = ApiServer::new(longboat_apiserver::Options { service_range, ..server }).unwrap();
        let client = server.client("default");
        let dir = tempfile::Builder::new().prefix("lbn").tempdir().unwrap();
        let cancel = CancellationToken::new();
        let loops = (server.clone(), cancel.clone());
        tokio::spawn(async move { loops.0.run_loops(loops.1).await });
        let mut world = Self { server, client, dir, node: None, network, cancel };
        world.start_node(change).await;
        world
    }

    /// Starts a node in a world that has none.
    pub(crate) async fn start_node(&mut self, change: impl FnOnce(&mut Options)) {
        let mut options = options(self.dir.path());
        let [first, last] = self.network.pods;
        options.address_range = first..=last;
        change(&mut options);
        let node = Node::start(self.client.clone(), options).await.unwrap();
        self.server.set_pod_access(node.pod_access());
        self.node = Some(node);
    }

    pub(crate) fn node(&self) -> &NodeHandle {
        self.node.as_ref().unwrap()
    }

    pub(crate) async fn stop_node(&mut self, deadline: Duration) {
        self.node.take().unwrap().shutdown(deadline).await;
    }

    pub(crate) async fn end(mut self) {
        self.stop_node(Duration::from_secs(1)).await;
        self.cancel.cancel();
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::default_namespaced(self.client.clone())
    }

    pub(crate) async fn create<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let object: K = serde_json::from_value(object).unwrap();
        self.api::<K>().create(&PostParams::default(), &object).await.unwrap()
    }

    /// Creates a pod with this spec. Containers without an image get an image that is unknown here.
    pub(crate) async fn pod(&self, name: &str, mut spec: Value) -> Pod {
        for list in ["containers", "initContainers"] {
            for container in spec[list].as_array_mut().into_iter().flatten() {
                container.as_object_mut().unwrap().entry("image").or_insert("busybox".into());
            }
        }
        self.create(serde_json::json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": spec}))
            .await
    }

    pub(crate) async fn get_pod(&self, name: &str) -> Pod {
        self.api::<Pod>().get(name).await.unwrap()
    }

    pub(crate) async fn delete_pod(&self, name: &str) {
        self.api::<Pod>().delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Waits until an object is as wanted.
    pub(crate) async fn until<K>(&self, name: &str, what: &str, wanted: impl Fn(&K) -> bool) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let mut last = None;
        let reached = tokio::time::timeout(PATIENCE, async {
            loop {
                if let Some(object) = self.api::<K>().get_opt(name).await.unwrap() {
                    if wanted(&object) {
                        return object;
                    }
                    last = Some(object);
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        if let Ok(object) = reached.await {
            return object;
        }
        panic!(
            "{name} is not {what}: {}\nevents: {:#?}\npods: {}",
            serde_json::to_string_pretty(&last).unwrap(),
            self.events(name).await,
            self.pod_states().await
        )
    }

    pub(crate) async fn until_pod(&self, name: &str, what: &str, wanted: impl Fn(&Pod) -> bool) -> Pod {
        self.until(name, what, wanted).await
    }

    pub(crate) async fn until_ready(&self, name: &str) -> Pod {
        self.until_pod(name, "ready", |pod| condition(pod, "Ready") == "True").await
    }

    pub(crate) async fn until_gone(&self, name: &str) {
        let gone = async {
            while self.api::<Pod>().get_opt(name).await.unwrap().is_some() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, gone).await.unwrap_or_else(|_| panic!("{name} is still there"));
    }

    /// Returns the status of every pod, for the message of a failure.
    async fn pod_states(&self) -> String {
        let pods = self.api::<Pod>().list(&ListParams::default()).await.unwrap();
        let states = pods.iter().map(|pod| (pod.name_any(), &pod.status)).collect::<Vec<_>>();
        serde_json::to_string_pretty(&states).unwrap()
    }

    /// Returns the events about an object as `reason: message`.
    pub(crate) async fn events(&self, name: &str) -> Vec<String> {
        let events = self.api::<Event>().list(&ListParams::default()).await.unwrap();
        let own =
            events.items.into_iter().filter(|event| event.involved_object.name.as_deref() == Some(name));
        own.map(|event| {
            format!(
                "{}: {} x{}",
                event.reason.unwrap_or_default(),
                event.message.unwrap_or_default(),
                event.count.unwrap_or(0)
            )
        })
        .collect()
    }

    /// Waits for an event about an object whose text contains `wanted`.
    pub(crate) async fn until_event(&self, name: &str, wanted: &str) {
        let seen = async {
            while !self.events(name).await.iter().any(|event| event.contains(wanted)) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let seen = tokio::time::timeout(PATIENCE, seen).await;
        assert!(seen.is_ok(), "no event {wanted:?} in {:#?}", self.events(name).await);
    }

    /// Returns a container's log.
    pub(crate) async fn logs(&self, name: &str, options: LogOptions) -> Result<String, String> {
        let pod = PodRef { namespace: "default".into(), name: name.into() };
        let stream = self.node().pod_access().logs(pod, options).await.map_err(|error| error.to_string())?;
        let bytes: Vec<bytes::Bytes> = stream.try_collect().await.unwrap();
        Ok(String::from_utf8(bytes.concat()).unwrap())
    }

    /// Returns the path of a file that processes write and tests read.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

/// Returns options for a node in `dir`, whose executable is the script of [`super::roles`].
pub(crate) fn options(dir: &Path) -> Options {
    let mut options = Options::new(PROGRAM.clone());
    options.state_dir = dir.join("state");
    options.api = ApiAccess { url: "https://127.0.0.1:6443".into(), ca_pem: Some("ca".into()) };
    options.timing.backoff_initial = Duration::from_millis(300);
    options.timing.backoff_max = Duration::from_millis(600);
    options.timing.prepare_retry = Duration::from_millis(50);
    options.timing.volume_sync = Duration::from_millis(200);
    options
}

/// Returns the status of a pod's condition.
pub(crate) fn condition<'p>(pod: &'p Pod, type_: &str) -> &'p str {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .filter(|condition| condition.type_ == type_)
        .map(|condition| condition.status.as_str())
        .next()
        .unwrap_or("")
}

/// Returns the status of the pod's first container.
pub(crate) fn main_container(pod: &Pod) -> k8s_openapi::api::core::v1::ContainerStatus {
    pod.status.clone().unwrap().container_statuses.unwrap().remove(0)
}

pub(crate) fn pod_ip(pod: &Pod) -> String {
    pod.status.clone().unwrap().pod_ip.unwrap()
}

/// Whether a process exists and is not a zombie.
pub(crate) fn is_alive(pid: i32) -> bool {
    let state = std::process::Command::new("ps")
        .args(["-o", "stat=", "-p", &pid.to_string()])
        .output()
        .unwrap()
        .stdout;
    let state = String::from_utf8(state).unwrap();
    !state.trim().is_empty() && !state.trim().starts_with('Z')
}

/// Waits until a file contains a number.
pub(crate) async fn number_in(path: &Path) -> i32 {
    let read = async {
        loop {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            if let (true, Ok(number)) = (text.ends_with('\n'), text.trim().parse()) {
                return number;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, read).await.unwrap_or_else(|_| panic!("nothing in {}", path.display()))
}

/// Waits until a condition holds.
pub(crate) async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let reached = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, reached).await.unwrap_or_else(|_| panic!("{what}: never"));
}

/// Returns the response to an HTTP request, or `None` if there is no connection.
pub(crate) async fn http_get(address: &str) -> Option<String> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.ok()?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned())
}

pub(crate) fn uid<K: Resource>(object: &K) -> String {
    object.uid().unwrap()
}
