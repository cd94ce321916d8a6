//! The measured processes, and an API server with what they serve.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::envoy::free_port;

/// How long a process may take to start on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// The file that says where the API server is.
const KUBECONFIG: &str = "kubeconfig";

/// A child process, which ends when this is dropped.
pub(crate) struct Process(Child);

/// The resources that processes have used.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    /// The CPU time of all threads.
    pub(crate) cpu: Duration,
    /// The resident memory in bytes, with the pages of the program that were read.
    pub(crate) resident: u64,
    /// The part of it that is no page of a file, in bytes.
    pub(crate) anonymous: u64,
}

/// An API server of our own with a pool of engines, a picker's Service, and Gateways.
pub(crate) struct Cluster {
    url: String,
    http: reqwest::Client,
    _server: Process,
}

/// Starts the binary that is measured.
fn longboat(folder: &Path, arguments: &[String]) -> Process {
    // Cargo runs benches in the folder of their package, so relative paths start from the root of the repository.
    let program = std::env::var_os("LONGBOAT_BINARY")
        .map_or_else(|| env!("CARGO_BIN_EXE_longboat").into(), |binary| crate::root().join(binary));
    let log = fs::File::create(folder.join(format!("{}-{}.log", arguments[0], free_port()))).unwrap();
    let child = Command::new(program)
        .args(arguments)
        .env("KUBECONFIG", folder.join(KUBECONFIG))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    Process(child)
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// Defines the kinds that a Gateway serves.
fn define_kinds(folder: &Path) {
    let mut command = Command::new(crate::root().join(".cache/bin/kubectl"));
    command
        .args(["apply", "--server-side", "--kubeconfig"])
        .arg(folder.join(KUBECONFIG))
        .stdout(Stdio::null());
    let generated =
        fs::read_dir(crate::root().join("deploy/crds")).unwrap().flatten().map(|file| file.path());
    let of_local_mode = crate::root().join("crates/api/src/crd/gateway-kinds.yaml");
    for file in generated.filter(|file| !file.ends_with("kustomization.yaml")).chain([of_local_mode]) {
        command.arg("-f").arg(file);
    }
    let status = command.status().expect("no .cache/bin/kubectl: scripts/tools.sh fetches it");
    assert!(status.success(), "kubectl cannot define the kinds");
}

/// Tries until there is a value.
pub(crate) async fn until<T>(what: &str, mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = attempt().await {
            return value;
        }
        assert!(start.elapsed() < PATIENCE, "not so after {PATIENCE:?}: {what}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

// === impl Process ===

impl Process {
    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// === impl Usage ===

impl Usage {
    /// Sums up the resources of these processes.
    pub(crate) fn of(processes: &[u32]) -> Self {
        let mut usage = Self::default();
        for process in processes {
            for thread in fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten() {
                // The kernel's scheduler counts nanoseconds.
                let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
                let ran = text.split(' ').next().and_then(|ran| ran.parse().ok()).unwrap_or(0);
                usage.cpu += Duration::from_nanos(ran);
            }
            let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
            let bytes = |field: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
                line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
            };
            usage.resident += bytes("VmRSS:");
            usage.anonymous += bytes("RssAnon:");
        }
        usage
    }
}

// === impl Cluster ===

impl Cluster {
    /// Starts the server, and creates the kinds and a GatewayClass.
    pub(crate) async fn start(folder: &Path) -> Self {
        let port_file = folder.join("port");
        let server = longboat(
            folder,
            &words(&format!("apiserver --no-auth --listen 127.0.0.1:0 --port-file {}", port_file.display())),
        );
        let port = until("the API server is ready", async || {
            fs::read_to_string(&port_file).ok()?.trim().parse::<u16>().ok()
        })
        .await;
        let url = format!("http://127.0.0.1:{port}");
        let named = |key: &str, value: Value| json!([{"name": "bench", key: value}]);
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "bench",
            "clusters": named("cluster", json!({"server": url})),
            "users": named("user", json!({})),
            "contexts": named("context", json!({"cluster": "bench", "user": "bench"})),
        });
        fs::write(folder.join(KUBECONFIG), config.to_string()).unwrap();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let cluster = Self { url, http, _server: server };
        define_kinds(folder);
        let class = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "longboat"},
            "spec": {"controllerName": "longboat.dev/gateway"},
        });
        cluster.apply("apis/gateway.networking.k8s.io/v1/gatewayclasses", &class).await;
        cluster
    }

    /// Writes an object. `collection` is the path of its kind.
    pub(crate) async fn apply(&self, collection: &str, object: &Value) {
        self.patch(&format!("{collection}/{}", object["metadata"]["name"].as_str().unwrap()), object).await;
    }

    /// Writes the status of an object.
    async fn apply_status(&self, collection: &str, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap();
        self.patch(&format!("{collection}/{name}/status"), object).await;
    }

    async fn patch(&self, path: &str, object: &Value) {
        let url = format!("{}/{path}?fieldManager=bench&force=true", self.url);
        // A kind is served a moment after its definition is written.
        until(path, async || {
            // `json` keeps a type that is already there.
            let apply =
                self.http.patch(&url).header("content-type", "application/apply-patch+yaml").json(object);
            apply.send().await.ok()?.error_for_status().ok()
        })
        .await;
    }

    /// Creates a pod for each of these engines, the pool of all, and the picker behind it: its Deployment, whose flags a gateway
    /// reads that picks itself, and its endpoint, which the others call.
    pub(crate) async fn make_pool(&self, engines: &[SocketAddr], picker: SocketAddr, policy: &str) {
        for (number, engine) in engines.iter().enumerate() {
            let ip = engine.ip();
            let mut pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": format!("engine-{number}"), "labels": {"app": "engine"}},
                "spec": {"containers": [{"name": "main", "image": "vllm"}]},
            });
            self.apply(&core("pods"), &pod).await;
            pod["spec"].take();
            pod["status"] = json!({"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
                "conditions": [{"type": "Ready", "status": "True"}]});
            self.apply_status(&core("pods"), &pod).await;
        }
        let labels = json!({"app": "epp"});
        let container =
            json!({"name": "main", "image": "epp", "command": ["/app/epp"], "args": flags(policy)});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "picker"},
            "spec": {"selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels}, "spec": {"containers": [container]},
            }},
        });
        self.apply("apis/apps/v1/namespaces/default/deployments", &deployment).await;
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "picker"},
            "spec": {"selector": labels, "ports": [{"name": "grpc", "port": 9002}]},
        });
        self.apply(&core("services"), &service).await;
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "picker-1", "labels": {"kubernetes.io/service-name": "picker"}},
            "ports": [{"name": "grpc", "port": picker.port()}],
            "endpoints": [{"addresses": [picker.ip()], "conditions": {"ready": true}}],
        });
        self.apply("apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &slice).await;
        let pool = json!({
            "apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool", "metadata": {"name": "pool"},
            "spec": {"selector": {"matchLabels": {"app": "engine"}}, "targetPorts": [{"number": engines[0].port()}],
                "endpointPickerRef": {"name": "picker", "port": {"number": 9002}, "failureMode": "FailClose"}},
        });
        self.apply("apis/inference.networking.k8s.io/v1/namespaces/default/inferencepools", &pool).await;
    }

    /// Creates a Gateway with this port, and starts the process that serves it.
    pub(crate) async fn serve(&self, folder: &Path, name: &str, picking: &str) -> (Process, String) {
        let [port, monitoring] = [free_port(), free_port()];
        let gateway = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": name},
            "spec": {
                "gatewayClassName": "longboat",
                "listeners": [{"name": "http", "port": port, "protocol": "HTTP"}],
            },
        });
        self.apply("apis/gateway.networking.k8s.io/v1/namespaces/default/gateways", &gateway).await;
        let arguments = format!(
            "gateway --gateway-namespace=default --gateway-name={name} --listen-address=127.0.0.1 \
             --monitoring-port={monitoring} --picking={picking}"
        );
        (longboat(folder, &words(&arguments)), format!("http://127.0.0.1:{port}"))
    }

    /// Routes all requests of a path to the pool.
    pub(crate) async fn route(&self, name: &str, path: &str) {
        let route = json!({
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": name},
            "spec": {"parentRefs": [{"name": "inside"}, {"name": "outside"}, {"name": "fresh"}], "rules": [{
                "matches": [{"path": {"type": "PathPrefix", "value": path}}],
                "filters": [{"type": "URLRewrite", "urlRewrite": {
                    "path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"},
                }}],
                "backendRefs": [{"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": "pool"}],
            }]},
        });
        self.apply("apis/gateway.networking.k8s.io/v1/namespaces/default/httproutes", &route).await;
    }
}

/// Starts the picker that is called over ext_proc.
pub(crate) fn picker(folder: &Path, address: SocketAddr, policy: &str) -> Process {
    let port = address.port();
    let mut arguments = words(&format!(
        "epp --grpc-health-port=0 --metrics-port=0 --bind-address=127.0.0.1 --grpc-port={port}"
    ));
    arguments.extend(flags(policy));
    longboat(folder, &arguments)
}

/// The flags that say for which pool a picker picks, and how.
fn flags(policy: &str) -> Vec<String> {
    let own = ["--pool-name=pool", "--pool-namespace=default", "--decisions=0", "--config-text", policy];
    own.map(str::to_owned).to_vec()
}

fn core(plural: &str) -> String {
    format!("api/v1/namespaces/default/{plural}")
}

/// Starts an engine that computes nothing on this address. Each token after the first comes 20 ms later.
pub(crate) fn engine(folder: &Path, number: u8, port: u16) -> (Process, SocketAddr) {
    let address = Ipv4Addr::new(127, 0, 5, number + 1);
    let arguments = format!(
        "sim --model m --host {address} --port {port} --max-model-len 8000000 --max-num-seqs 256 \
         --kv-cache-size 1000000 --inter-token-latency 20ms"
    );
    (longboat(folder, &words(&arguments)), SocketAddr::from((address, port)))
}
