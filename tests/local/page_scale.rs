//! The dashboard with a thousand services, one of them with fifty replicas: DOM and event stream stay small.
//!
//! The objects are on an API server without a controller, and one simulator answers for all replicas, so that the machine is
//! free for the browser. Times depend on the machine: they are printed, but not checked.

use std::process::Command;

use futures::{StreamExt, stream};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    browser::script,
    http::{self, block},
    program::{Running, run},
    tools,
    wait::until,
};

const SERVICES: usize = 1000;
const REPLICAS: usize = 50;

/// The maximum number of DOM nodes: the page draws 200 services, and six graphs with a table of fifty rows.
const NODES: u64 = 6000;
/// The maximum size of one replica's metrics in an event, in bytes.
const SAMPLE: u64 = 400;

fn longboat() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longboat"));
    command.stdin(std::process::Stdio::null());
    command
}

fn post(url: &str, objects: &[Value]) {
    let client = http::client();
    block(async {
        let mut answers = stream::iter(objects.iter().map(|object| client.post(url).json(object).send()))
            .buffer_unordered(16);
        while let Some(answer) = answers.next().await {
            let answer = http::read(answer.unwrap()).await;
            assert_eq!(answer.status, 201, "{answer:?}");
        }
    });
}

fn service(name: &str) -> Value {
    json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService", "metadata": {"name": name},
        "spec": {"model": {"uri": "hf://Qwen/Qwen2.5-0.5B-Instruct", "name": name}},
    })
}

fn replica(index: usize, port: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("many-{index:02}"), "labels": {
            "app.kubernetes.io/part-of": "llminferenceservice", "app.kubernetes.io/name": "many",
            "app.kubernetes.io/component": "llminferenceservice-workload",
        }},
        "spec": {"containers": [{"name": "main", "image": "vllm", "ports": [{"containerPort": port}]}]},
    })
}

#[test]
#[expect(clippy::print_stderr, reason = "how long things took is for people")]
fn a_thousand_services_and_fifty_replicas_stay_small() {
    if script("page_scale.mjs").is_none() || tools::kubectl().is_none() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("port");
    let _apiserver = Running::start(
        longboat().args(["apiserver", "--no-auth", "--listen=127.0.0.1:0", "--port-file"]).arg(&file),
    );
    let port = until("the API server listens", || {
        std::fs::read_to_string(&file).ok().filter(|port| !port.is_empty())
    });
    let url = format!("http://127.0.0.1:{}", port.trim());
    let kubeconfig = folder.path().join("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": url}}],
        "users": [{"name": "x", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    });
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let definitions = folder.path().join("crds.yaml");
    std::fs::write(&definitions, run(longboat().arg("crds")).ok()).unwrap();
    let mut kubectl = Command::new(tools::root().join(".cache/bin/kubectl"));
    kubectl.env("KUBECONFIG", &kubeconfig).args(["apply", "--server-side", "-f"]).arg(&definitions);
    run(&mut kubectl).ok();

    let simulator = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let port = simulator.to_string();
    let _simulator =
        Running::start(longboat().args(["sim", "--model=many", "--host=127.0.0.1", "--port", &port]));
    let services = format!("{url}/apis/serving.kserve.io/v1alpha2/namespaces/default/llminferenceservices");
    let names = (1..SERVICES).map(|index| service(&format!("service-{index:04}")));
    post(&services, &names.chain([service("many")]).collect::<Vec<_>>());
    let pods = format!("{url}/api/v1/namespaces/default/pods");
    post(&pods, &(0..REPLICAS).map(|index| replica(index, simulator)).collect::<Vec<_>>());
    for index in 0..REPLICAS {
        let status =
            json!({"status": {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}});
        let request = http::client()
            .patch(format!("{pods}/many-{index:02}/status"))
            .header("content-type", "application/merge-patch+json")
            .body(status.to_string());
        let answer = block(async { http::read(request.send().await.unwrap()).await });
        assert_eq!(answer.status, 200, "{answer:?}");
    }

    let running = Running::start(longboat().arg("dashboard").env("KUBECONFIG", &kubeconfig));
    let address = until("the address", || {
        running.stderr().lines().find_map(|line| line.strip_prefix("dashboard: ").map(str::to_owned))
    });
    let mut node = script("page_scale.mjs").unwrap();
    let services = SERVICES.to_string();
    let said =
        run(node.env("PAGE", address.trim()).env("SERVICES", services).env("REPLICAS", REPLICAS.to_string()));
    let said = said.ok();
    eprintln!("{said}");
    let measured: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    for view in ["list", "replicas"] {
        assert!(measured[view]["nodes"].as_u64().unwrap() < NODES, "{measured:#}");
    }
    // While nothing changes, the feed sends only heartbeats.
    assert!(measured["list"]["bytes"].as_u64().unwrap() < 100, "{measured:#}");
    let replicas = &measured["replicas"];
    let limit = SAMPLE * REPLICAS as u64 * (replicas["events"].as_u64().unwrap() + 1);
    assert!(replicas["bytes"].as_u64().unwrap() < limit, "{measured:#}");
    assert_eq!(replicas["rows"], REPLICAS);
}
