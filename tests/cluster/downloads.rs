//! The storage initializer of a service downloads a model. The status of the service shows the progress, with few writes.
//!
//! The cluster has no nodes, so the test acts as the kubelet: it runs the init container's command as a process and writes the
//! pod status.

use std::{
    collections::BTreeSet,
    io::{Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    binary::longboat,
    cluster::ExclusiveCluster,
    log::Log,
    program::{Running, run},
    server::free_ports,
    tools,
    wait::until,
};

const NAMESPACE: &str = "downloads";
/// Size of the model in bytes.
const SIZE: usize = 40 << 20;
/// Size of one piece that the server sends, in bytes.
const PIECE: usize = 256 << 10;
/// Time between two pieces: the whole model takes 20 seconds.
const PAUSE: Duration = Duration::from_millis(125);
/// How often the controller reads the progress of downloads, in seconds.
const PERIOD: u64 = 5;
/// The settings of the platform.
const SETTINGS: &str = "/api/v1/namespaces/kserve/configmaps/inferenceservice-config";

/// Starts a web server that sends one large file slowly. Returns its port.
fn slow_server() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || send(stream.unwrap()));
        }
    });
    port
}

fn send(mut stream: TcpStream) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count == 1) {
        head.push(byte[0]);
    }
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(answer.as_bytes());
    let piece = vec![7; PIECE];
    for _ in 0..SIZE / PIECE {
        if stream.write_all(&piece).is_err() {
            return;
        }
        thread::sleep(PAUSE);
    }
}

/// Starts the process of a pod's init container.
fn initializer(container: &Value, folder: &Path) -> Running {
    let mut command = Command::new(longboat());
    command.arg("fetch").arg(container["args"][0].as_str().unwrap()).arg(folder);
    for variable in container["env"].as_array().into_iter().flatten() {
        if let (Some(name), Some(value)) = (variable["name"].as_str(), variable["value"].as_str()) {
            command.env(name, value);
        }
    }
    Running::start(&mut command)
}

/// Returns the pod status that a kubelet writes for a state of that process.
fn reported(state: &Value) -> Value {
    json!({"status": {"phase": "Pending", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}], "initContainerStatuses": [{
        "name": "storage-initializer", "image": "longboat", "imageID": "", "ready": false, "restartCount": 0, "state": state,
    }]}})
}

#[test]
fn a_download_shows_how_far_it_is_and_writes_little() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    let api = &cluster.server.api;
    cluster.namespace(NAMESPACE);
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
    api.post(&format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts"), &account).ok();

    // Adds the port to the platform settings.
    let [port] = free_ports();
    let before = api.get(SETTINGS).ok()["data"]["longboat"].clone();
    let mut settings: Value =
        before.as_str().map_or_else(|| json!({}), |text| serde_json::from_str(text).unwrap());
    settings["downloadProgressPort"] = json!(port);
    api.merge(SETTINGS, &json!({"data": {"longboat": settings.to_string()}})).ok();

    let service = json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
        "metadata": {"name": "slow", "namespace": NAMESPACE},
        "spec": {"model": {"uri": format!("http://127.0.0.1:{}/w.safetensors", slow_server()), "name": "slow"}},
    });
    let services = format!("/apis/serving.kserve.io/v1alpha2/namespaces/{NAMESPACE}/llminferenceservices");
    // Until the controller's cache has the new setting, it creates workloads without the port.
    let template = until("the init container is asked to tell how far it is", || {
        api.post(&services, &service).ok();
        let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/slow-kserve");
        let template = until("the Deployment", || {
            let answer = api.get(&path);
            (answer.status == 200).then(|| answer.body["spec"]["template"].clone())
        });
        if template["spec"]["initContainers"][0]["ports"][0]["containerPort"] == port {
            return Some(template);
        }
        api.delete(&format!("{services}/slow")).ok();
        until("the service is gone", || api.get(&format!("{services}/slow")).status == 404);
        api.delete(&path);
        None
    });

    let mut spec = template["spec"].clone();
    spec.as_object_mut().unwrap().remove("serviceAccountName");
    spec.as_object_mut().unwrap().remove("serviceAccount");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "slow-0", "labels": template["metadata"]["labels"]}, "spec": spec,
    });
    let pods = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    api.post(&pods, &pod).ok();
    let folder = tempfile::tempdir().unwrap();
    let container = template["spec"]["initContainers"][0].clone();
    let mut running = initializer(&container, folder.path());
    let started = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
    api.merge(&format!("{pods}/slow-0/status"), &reported(&started)).ok();

    let message = || {
        let found = api.get(&format!("{services}/slow")).ok();
        let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let condition = conditions.into_iter().find(|condition| condition["type"] == "ModelFetched")?;
        Some(condition["message"].as_str().unwrap_or_default().to_owned())
    };
    until("the service says how far its model is", || {
        assert!(!running.has_ended(), "{}{}", running.stdout(), running.stderr());
        message().filter(|text| text.starts_with("downloading "))
    });
    let (log, since) = (Log::new(&cluster), Instant::now());
    let mark = log.mark();
    let mut kubectl = Command::new(tools::root().join(".cache/bin/kubectl"));
    kubectl.env("KUBECONFIG", &cluster.server.kubeconfig).env("HOME", &cluster.server.folder);
    let table = run(kubectl.args(["get", "llmisvc", "-n", NAMESPACE, "-o", "wide"])).ok();
    assert!(table.contains("DOWNLOAD") && table.contains("downloading "), "{table}");

    let mut messages = BTreeSet::new();
    until("the end of the download", || {
        messages.extend(message());
        running.has_ended()
    });
    let writes = log.written(mark).into_iter().filter(|write| write.contains("/llminferenceservices/slow"));
    let (writes, passed): (Vec<String>, u64) = (writes.collect(), since.elapsed().as_secs());
    // One write per period, and one for a period that had begun before.
    assert!(writes.len() as u64 <= passed / PERIOD + 2, "{passed} s: {writes:#?}");
    assert!(messages.len() > 1, "{messages:?}");
    let ended = running.end();
    assert!(ended.status.success(), "{ended:#?}");
    assert_eq!(std::fs::metadata(folder.path().join("w.safetensors")).unwrap().len(), SIZE as u64);

    let terminated = json!({"terminated": {
        "exitCode": 0, "reason": "Completed", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:01:00Z",
    }});
    api.merge(&format!("{pods}/slow-0/status"), &reported(&terminated)).ok();
    until("the service says nothing of downloads any more", || message().is_none());

    api.merge(SETTINGS, &json!({"data": {"longboat": before}})).ok();
    api.delete(&format!("{services}/slow")).ok();
}
