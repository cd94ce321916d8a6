//! Two pickers of which one leads, on an API server and behind an Envoy: a change of the leader costs no request.

use std::{fs, net::SocketAddr, path::Path};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    death::Load,
    envoy::{self, Envoy, Port},
    http, processes, tools,
    wait::until,
    world::{Pool, Role, longboat, turn},
};

/// An API server without objects but ours, and a kubeconfig for it.
struct Cluster {
    url: String,
    folder: TempDir,
    _role: Role,
}

impl Cluster {
    fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let port = folder.path().join("port");
        let mut command = longboat();
        command.args(["apiserver", "--listen=127.0.0.1:0", "--no-auth", "--port-file"]).arg(&port);
        let role = Role::start(&mut command);
        let port = until("the API server", || fs::read_to_string(&port).ok().filter(|port| !port.is_empty()));
        let url = format!("http://127.0.0.1:{}", port.trim());
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": url}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
        });
        fs::write(folder.path().join("config"), config.to_string()).unwrap();
        Self { url, folder, _role: role }
    }

    fn config(&self) -> std::path::PathBuf {
        self.folder.path().join("config")
    }

    fn create(&self, path: &str, object: &Value) {
        let answer = http::post(&self.url, path, object.to_string(), false);
        assert_eq!(answer.status, 201, "{answer:?}");
    }

    /// Creates the pool of an engine, and its pod.
    fn create_pool(&self, engine: SocketAddr) {
        for definition in longboat_api::crd::foreign() {
            self.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition);
        }
        let pool = json!({
            "apiVersion": "inference.networking.k8s.io/v1", "kind": "InferencePool", "metadata": {"name": "mine"},
            "spec": {
                "selector": {"matchLabels": {"app": "model"}}, "targetPorts": [{"number": engine.port()}],
                "endpointPickerRef": {"name": "picker", "port": {"number": 9002}},
            },
        });
        let path = "/apis/inference.networking.k8s.io/v1/namespaces/default/inferencepools";
        until("the pools' API", || {
            (http::post(&self.url, path, pool.to_string(), false).status == 201).then_some(())
        });
        let pods = "/api/v1/namespaces/default/pods";
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "engine", "labels": {"app": "model"}},
            "spec": {"containers": [{"name": "main", "image": "x"}]},
        });
        self.create(pods, &pod);
        let status =
            json!({"status": {"podIP": engine.ip(), "conditions": [{"type": "Ready", "status": "True"}]}});
        let patched = http::block(async {
            let request = http::client(false).patch(format!("{}{pods}/engine/status", self.url));
            let request = request.header("content-type", "application/merge-patch+json");
            request.body(status.to_string()).send().await.unwrap().status()
        });
        assert_eq!(patched.as_u16(), 200);
    }
}

/// A picker that leads, or waits to lead.
struct Candidate {
    role: Role,
    address: SocketAddr,
    page: String,
}

impl Candidate {
    fn start(config: &Path) -> Self {
        let (address, metrics) = (SocketAddr::from(([127, 0, 0, 1], envoy::free_port())), envoy::free_port());
        let mut command = longboat();
        command
            .args(["epp", "--bind-address=127.0.0.1", "--grpc-health-port=0", "--pool-name=mine"])
            .args(["--pool-namespace=default", "--ha-enable-leader-election", "--health-checking"])
            .args(["--drain-timeout=2s"])
            .arg(format!("--grpc-port={}", address.port()))
            .arg(format!("--metrics-port={metrics}"))
            .env("KUBECONFIG", config);
        let role = Role::start(&mut command);
        Self { role, address, page: format!("http://127.0.0.1:{metrics}/metrics") }
    }

    /// Returns how many requests it has sent on.
    fn picks(&self) -> f64 {
        let page = http::try_get(&self.page).unwrap_or_default();
        let picks = page.lines().filter(|line| line.starts_with("llm_d_epp_scheduler_attempts_total"));
        picks.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }
}

#[test]
fn a_leader_that_is_asked_to_end_hands_over_without_a_failed_request() {
    let Some(program) = tools::tool("bin/envoy") else { return };
    let _turn = turn();
    let pool = Pool::start(1, "5ms");
    let cluster = Cluster::start();
    cluster.create_pool(pool.engines[0]);
    let mut first = Candidate::start(&cluster.config());
    until("a leader that knows its endpoint", || {
        let page = http::try_get(&first.page)?;
        page.contains("llm_d_epp_ready_endpoints{name=\"mine\"} 1").then_some(())
    });
    let second = Candidate::start(&cluster.config());
    let envoy = Envoy::start(
        &program,
        &[Port {
            pickers: vec![first.address, second.address],
            endpoints: pool.engines.clone(),
            fail_open: true,
            health: true,
            ..Port::default()
        }],
    );
    let (plain, streams) = (Load::start(&envoy.url(0), false), Load::start(&envoy.url(0), true));
    until("requests that the leader has sent on", || (first.picks() > 10.0).then_some(()));
    assert!(second.picks() < 0.5, "a follower gets no requests");
    processes::signal("TERM", first.role.pid());
    first.role.ended();
    until("requests that the next leader has sent on", || (second.picks() > 10.0).then_some(()));
    plain.goes_on();
    streams.goes_on();
    assert_eq!((plain.end(), streams.end()), (Vec::new(), Vec::new()), "{}", envoy.log());
}
