//! How far a model is, on a real API server: the controller asks the real fetcher, which has no rights there. Nobody runs pods
//! here, so the test reports what a kubelet would.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, TcpListener},
    process::Command,
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    binary,
    cluster::Turn,
    server::{Guarded, free_ports},
    wait::until,
};

const SERVICES: &str = "/apis/serving.kserve.io/v1alpha2/namespaces/downloads/llminferenceservices";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/downloads/deployments/llm-kserve";
const PODS: &str = "/api/v1/namespaces/downloads/pods";
const SETTINGS: &str = "/api/v1/namespaces/kserve/configmaps/inferenceservice-config";

/// A web server with a file of 100 MB that comes at a megabyte a second, for as long as somebody reads it.
fn slow_server() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 100000000\r\n\r\n";
                let mut sent = stream.write_all(head.as_bytes());
                while sent.is_ok() {
                    thread::sleep(Duration::from_millis(100));
                    sent = stream.write_all(&[7; 100_000]);
                }
            });
        }
    });
    port
}

/// What the kubelet says of the pod while its init container is in this state.
fn status(state: &Value) -> Value {
    let container = json!({
        "name": "storage-initializer", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state,
    });
    let ips = json!([{"ip": "127.0.0.1"}]);
    json!({"status": {"phase": "Pending", "podIP": "127.0.0.1", "podIPs": ips, "initContainerStatuses": [container]}})
}

#[test]
fn a_download_is_seen_in_the_status_of_its_service() {
    let Some(cluster) = Turn::take() else { return };
    let api = &cluster.server.api;
    cluster.namespace("downloads");
    let [port] = free_ports();
    let setting = json!({"downloadProgressPort": port}).to_string();
    api.merge(SETTINGS, &json!({"data": {"longboat": setting}})).ok();

    let service = json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
        "metadata": {"name": "llm"}, "spec": {"model": {"uri": "hf://org/model"}},
    });
    // The controller hears of the setting in its own time, and only new workloads follow it.
    let template = until("the initializer listens", || {
        if api.get(&format!("{SERVICES}/llm")).status == 404 {
            api.post(SERVICES, &service).ok();
        }
        let deployment = api.get(DEPLOYMENT);
        let template = (deployment.status == 200).then(|| deployment.body["spec"]["template"].clone())?;
        let found = &template["spec"]["initContainers"][0];
        if found["ports"][0]["containerPort"] == port {
            return Some(template);
        }
        api.delete(&format!("{SERVICES}/llm")).ok();
        None
    });
    let env = &template["spec"]["initContainers"][0]["env"];
    let listens = json!({"name": "LONGBOAT_FETCH_PORT", "value": port.to_string()});
    assert!(env.as_array().unwrap().contains(&listens), "{env:#}");

    let mut pod = template.clone();
    pod["metadata"]["name"] = json!("llm-pod");
    pod["spec"]["serviceAccountName"] = json!("default");
    until("the pod is taken", || (api.post(PODS, &pod).status == 201).then_some(()));
    // It is removed with the process.
    let own = cluster.server.folder.join("downloads");
    std::fs::create_dir(&own).unwrap();
    let source = format!("http://127.0.0.1:{}/w.bin", slow_server());
    let fetcher = Guarded::start(&binary::longboat(), &own.join("log"), |command: &mut Command| {
        command.args(["fetch", &source]).arg(own.join("model")).env("LONGBOAT_FETCH_PORT", port.to_string());
    });
    api.merge(&format!("{PODS}/llm-pod/status"), &status(&json!({"running": {}}))).ok();

    let says = |reason: &str, words: &str| {
        until(&format!("ModelFetched {reason} {words}"), || {
            let service = api.get(&format!("{SERVICES}/llm")).ok();
            let mut conditions = service["status"]["conditions"].as_array()?.iter();
            let found = conditions.find(|found| found["type"] == "ModelFetched")?;
            let message = found["message"].as_str()?.to_owned();
            (found["status"] == "False" && found["reason"] == reason && message.contains(words))
                .then_some(message)
        })
    };
    let message = says("Downloading", "/100.0 MB");
    assert!(message.starts_with("downloading ") && message.contains("B/s"), "{message}");
    let table = until("kubectl shows it", || {
        let table = cluster.kubectl(&["get", "llmisvc", "-n", "downloads", "-o", "wide"]).ok();
        table.contains("/100.0 MB").then_some(table)
    });
    assert!(table.lines().next().unwrap().ends_with("DOWNLOAD"), "{table}");

    // Without an answer the condition says who does not give one.
    drop(fetcher);
    let message = says("ProgressUnknown", "pod llm-pod");
    assert!(message.contains(&format!("http://127.0.0.1:{port}/")), "{message}");

    let ended = json!({"terminated": {"exitCode": 0, "startedAt": null, "finishedAt": null}});
    api.merge(&format!("{PODS}/llm-pod/status"), &status(&ended)).ok();
    until("the condition goes with the download", || {
        let service = api.get(&format!("{SERVICES}/llm")).ok();
        let conditions = service["status"]["conditions"].as_array()?;
        conditions.iter().all(|found| found["type"] != "ModelFetched").then_some(())
    });
    api.merge(SETTINGS, &json!({"data": {"longboat": null}})).ok();
    api.delete(&format!("{SERVICES}/llm")).ok();
    api.delete(&format!("{PODS}/llm-pod")).ok();
    until("the service is gone", || (api.get(&format!("{SERVICES}/llm")).status == 404).then_some(()));
}
