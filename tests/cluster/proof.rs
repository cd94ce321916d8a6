//! The proof of serving on a real API server: a gateway that does not answer at first, and then does; one whose certificate is
//! not trusted at first.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use longboat_tls::{CertificateAuthority, LeafRequest};
use serde_json::{Value, json};
use tokio_rustls::rustls::{ServerConnection, StreamOwned};

use crate::{api::Api, cluster::ExclusiveCluster, ready::make_ready, wait::until};

/// The settings of the platform.
const SETTINGS: &str = "/api/v1/namespaces/kserve/configmaps/inferenceservice-config";
const CONFIG_MAPS: &str = "/api/v1/namespaces/kserve/configmaps";

/// The services of a test, which has a namespace of its own.
fn services(namespace: &str) -> String {
    format!("/apis/serving.kserve.io/v1alpha2/namespaces/{namespace}/llminferenceservices")
}

fn gateways(namespace: &str) -> String {
    format!("/apis/gateway.networking.k8s.io/v1/namespaces/{namespace}-gateways/gateways")
}

/// A gateway whose data plane is at a port of this machine.
fn make_gateway(api: &Api, namespace: &str, port: u16, is_tls: bool) {
    let mut listener = json!({
        "name": "web", "port": port, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}},
    });
    if is_tls {
        listener["protocol"] = json!("HTTPS");
        listener["tls"] = json!({"certificateRefs": [{"name": "of-the-gateway"}]});
    }
    let gateway = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "gw"},
        "spec": {"gatewayClassName": "longboat", "listeners": [listener]},
    });
    api.post(&gateways(namespace), &gateway).ok();
    let condition = |type_: &str| {
        json!({
            "type": type_, "status": "True", "reason": type_, "message": "", "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let status = json!({
        "addresses": [{"type": "IPAddress", "value": "127.0.0.1"}],
        "conditions": [condition("Accepted"), condition("Programmed")],
    });
    api.merge(&format!("{}/gw/status", gateways(namespace)), &json!({"status": status})).ok();
}

/// A model behind a gateway, in as few lines as possible: it answers every request with a token, and counts.
fn answer(stream: impl Read + Write, namespace: &str, asked: &AtomicUsize) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length, mut head) = (String::new(), 0, String::new());
    while reader.read_line(&mut line)? > 2 {
        let header = line.to_ascii_lowercase();
        length = header.strip_prefix("content-length:").map_or(length, |value| value.trim().parse().unwrap());
        head.push_str(&header);
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let request: Value = serde_json::from_slice(&body).unwrap();
    assert!(head.starts_with(&format!("post /{namespace}/llm/v1/completions ")), "{head}");
    assert!(!head.contains("authorization"), "{head}");
    assert_eq!(request["max_tokens"], 1);
    asked.fetch_add(1, Ordering::SeqCst);
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 1});
    let said = json!({"model": request["model"], "choices": [{"text": "a"}], "usage": usage}).to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        said.len()
    );
    reader.get_mut().write_all((head + &said).as_bytes())?;
    reader.get_mut().flush()
}

fn says(api: &Api, namespace: &str, status: &str, reason: &str) -> String {
    until(&format!("ServingProven={status} {reason}"), || {
        make_ready(api, &[namespace].into());
        let service = api.get(&format!("{}/llm", services(namespace))).ok();
        let mut conditions = service["status"]["conditions"].as_array()?.iter();
        let found = conditions.find(|found| found["type"] == "ServingProven")?;
        (found["status"] == status && found["reason"] == reason)
            .then(|| found["message"].as_str().unwrap_or_default().to_owned())
    })
}

/// Deletes the service and waits until it is gone.
fn gone(api: &Api, namespace: &str) {
    let path = format!("{}/llm", services(namespace));
    api.delete(&path).ok();
    until("the service is gone", || api.get(&path).status == 404);
}

/// A service behind a gateway.
fn service(namespace: &str) -> Value {
    let gateway = json!({"refs": [{"name": "gw", "namespace": format!("{namespace}-gateways")}]});
    json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
        "metadata": {"name": "llm", "annotations": {"longboat.dev/serving-proof": "report"}},
        "spec": {"model": {"uri": "hf://org/model"}, "router": {"route": {}, "gateway": gateway, "scheduler": {}}},
    })
}

#[test]
fn a_gateway_that_does_not_answer_is_named_and_one_that_does_is_asked_once() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    let api = &cluster.server.api;
    cluster.namespace("proof");
    cluster.namespace("proof-gateways");
    // A free port: nothing listens there yet.
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    make_gateway(api, "proof", port, false);
    api.post(&services("proof"), &service("proof")).ok();
    let said = says(api, "proof", "False", "GatewayUnreachable");
    assert!(
        said.contains(&format!("does not answer at http://127.0.0.1:{port}/proof/llm/v1/completions")),
        "{said}"
    );

    let asked = Arc::new(AtomicUsize::new(0));
    let (counter, listener) = (asked.clone(), TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let _ = answer(stream, "proof", &counter);
        }
    });
    let said = says(api, "proof", "True", "TokenReceived");
    assert!(
        said.starts_with("http://127.0.0.1:") && said.ends_with(" answered with a token of model llm"),
        "{said}"
    );
    let record =
        |service: &Value| service["status"]["annotations"]["longboat.dev/serving-proof-record"].clone();
    let before = api.get(&format!("{}/llm", services("proof"))).ok();
    assert!(record(&before).is_string(), "{before:#}");

    // A reconcile for another reason sends no second request.
    api.merge(
        &format!("{}/llm", services("proof")),
        &json!({"spec": {"router": {"scheduler": {"labels": {"note": "x"}}}}}),
    )
    .ok();
    let after = until("the change was looked at", || {
        let service = api.get(&format!("{}/llm", services("proof"))).ok();
        (service["status"]["observedGeneration"] == service["metadata"]["generation"]).then_some(service)
    });
    assert_eq!(record(&after), record(&before));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    gone(api, "proof");
}

#[test]
fn a_gateway_with_tls_is_asked_when_the_platform_names_who_signed_its_certificate() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    let api = &cluster.server.api;
    cluster.namespace("proof-tls");
    cluster.namespace("proof-tls-gateways");
    longboat_tls::install_default_provider();
    let authority = CertificateAuthority::new("of the gateway").unwrap();
    let request = LeafRequest {
        common_name: "gateway".into(),
        ips: vec![Ipv4Addr::LOCALHOST.into()],
        days: 1,
        ..LeafRequest::default()
    };
    let config = longboat_tls::server_config(&authority.issue(&request).unwrap(), &[]).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = asked.clone();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let connection = ServerConnection::new(config.clone()).unwrap();
            let _ = answer(StreamOwned::new(connection, stream), "proof-tls", &counter);
        }
    });
    make_gateway(api, "proof-tls", port, true);
    api.post(&services("proof-tls"), &service("proof-tls")).ok();
    let said = says(api, "proof-tls", "False", "GatewayNotTrusted");
    assert!(said.contains(&format!("https://127.0.0.1:{port}/proof-tls/llm/v1/completions")), "{said}");
    assert!(said.contains("servingProofCA"), "{said}");
    assert_eq!(asked.load(Ordering::SeqCst), 0, "whoever is not trusted gets no request");

    let before = api.get(SETTINGS).ok()["data"]["longboat"].clone();
    let mut settings: Value = before.as_str().map_or(json!({}), |text| serde_json::from_str(text).unwrap());
    settings["servingProofCA"] = json!("gateway-ca");
    let bundle = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gateway-ca"},
        "data": {"ca.crt": authority.pem()},
    });
    api.post(CONFIG_MAPS, &bundle).ok();
    api.merge(SETTINGS, &json!({"data": {"longboat": settings.to_string()}})).ok();
    let said = says(api, "proof-tls", "True", "TokenReceived");
    assert!(said.contains(&format!("https://127.0.0.1:{port}/")), "{said}");
    assert_eq!(asked.load(Ordering::SeqCst), 1);

    api.merge(SETTINGS, &json!({"data": {"longboat": before}})).ok();
    api.delete(&format!("{CONFIG_MAPS}/gateway-ca")).ok();
    gone(api, "proof-tls");
}
