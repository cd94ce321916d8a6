//! Tests of logs and port-forwarding with kubectl.

use std::{process::Stdio, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};
use longboat_apiserver::{
    ApiServer, Options,
    pod_access::{LogOptions, LogStream, PodAccess, PodAccessError, PodRef, PortStream},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    process::Command,
};
use tokio_util::sync::CancellationToken;

/// A node whose pods echo on their ports, and whose logs contain the options of the request.
struct Echo;

#[async_trait]
impl PodAccess for Echo {
    async fn logs(&self, pod: PodRef, options: LogOptions) -> Result<LogStream, PodAccessError> {
        let lines = vec![
            Ok(Bytes::from(format!("{} {:?}\n", pod.name, options.tail_lines))),
            Ok(Bytes::from("end\n")),
        ];
        Ok(stream::iter(lines).boxed())
    }

    async fn connect(&self, _: PodRef, port: u16) -> Result<Box<dyn PortStream>, PodAccessError> {
        if port != 80 {
            return Err(PodAccessError::Internal("nothing listens".to_owned()));
        }
        let (near, far) = tokio::io::duplex(1024);
        tokio::spawn(async move {
            let (mut input, mut output) = tokio::io::split(far);
            let _ = tokio::io::copy(&mut input, &mut output).await;
            let _ = output.shutdown().await;
        });
        Ok(Box::new(near) as Box<dyn PortStream>)
    }
}

async fn server_with_a_pod() -> (ApiServer, String, CancellationToken) {
    let server = ApiServer::new(Options::default()).unwrap();
    server.set_pod_access(Arc::new(Echo));
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"nodeName": "here", "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]}});
    let client = server.client("default");
    let request = |method: &str, path: &str, kind: &str, body: &Value| {
        http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .body(body.to_string().into_bytes())
            .unwrap()
    };
    let pods = "/api/v1/namespaces/default/pods";
    client.request::<Value>(request("POST", pods, "application/json", &pod)).await.unwrap();
    let running = json!({"status": {"phase": "Running"}});
    client
        .request::<Value>(request(
            "PATCH",
            &format!("{pods}/p/status"),
            "application/merge-patch+json",
            &running,
        ))
        .await
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let shutdown = CancellationToken::new();
    tokio::spawn({
        let (server, shutdown) = (server.clone(), shutdown.clone());
        async move { server.serve(listener, None, shutdown).await }
    });
    (server, url, shutdown)
}

fn kubectl(url: &str, home: &std::path::Path) -> Command {
    let mut command = Command::new("kubectl");
    command.env("HOME", home).args(["--server", url]).kill_on_drop(true);
    command
}

/// Whether kubectl is installed. Prints a message if not.
async fn has_kubectl() -> bool {
    let there = Command::new("kubectl")
        .args(["version", "--client"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .await
        .is_ok_and(|status| status.success());
    if !there {
        longboat_golden::skipped("no kubectl on the PATH");
    }
    there
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_reads_logs_with_their_options() {
    if !has_kubectl().await {
        return;
    }
    let (_server, url, shutdown) = server_with_a_pod().await;
    let home = tempfile::tempdir().unwrap();
    let output = kubectl(&url, home.path()).args(["logs", "p", "--tail=3", "-f"]).output().await.unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "p Some(3)\nend\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    shutdown.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kubectl_forwards_ports_through_spdy_and_through_a_websocket() {
    if !has_kubectl().await {
        return;
    }
    let (_server, url, shutdown) = server_with_a_pod().await;
    let home = tempfile::tempdir().unwrap();
    for websockets in ["true", "false"] {
        let mut child = kubectl(&url, home.path())
            .env("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets)
            .args(["port-forward", "pod/p", ":80"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = tokio::time::timeout(Duration::from_secs(20), lines.next_line()).await.unwrap().unwrap();
        let Some(line) = line else {
            let mut said = String::new();
            child.stderr.take().unwrap().read_to_string(&mut said).await.unwrap();
            panic!("websockets={websockets}: {said}")
        };
        let address =
            line.strip_prefix("Forwarding from ").and_then(|rest| rest.split(' ').next()).unwrap().to_owned();
        for size in [5, 300_000] {
            let mut stream = TcpStream::connect(&address).await.unwrap();
            let sent: Vec<u8> = (0..size).map(|i| u8::try_from(i % 251).unwrap()).collect();
            let (mut input, mut output) = stream.split();
            let mut got = vec![0; sent.len()];
            let exchange = async {
                let (wrote, read) = tokio::join!(output.write_all(&sent), input.read_exact(&mut got));
                wrote.unwrap();
                read.unwrap();
            };
            tokio::time::timeout(Duration::from_secs(20), exchange).await.unwrap();
            assert!(got == sent, "websockets={websockets}, {size} bytes came back different");
        }
        child.kill().await.unwrap();
    }
    shutdown.cancel();
}
