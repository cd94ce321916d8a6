//! The serving proof on a real API server: the gateway does not answer at first, and then does.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use serde_json::{Value, json};

use crate::{api::Api, cluster::Turn, ready::make_ready, wait::until};

const SERVICES: &str = "/apis/serving.kserve.io/v1alpha2/namespaces/proof/llminferenceservices";
const GATEWAYS: &str = "/apis/gateway.networking.k8s.io/v1/namespaces/proof-gateways/gateways";

/// Creates a Gateway whose data plane is at a port of this machine.
fn make_gateway(api: &Api, port: u16) {
    let gateway = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "gw"},
        "spec": {
            "gatewayClassName": "longboat",
            "listeners": [{
                "name": "http", "port": port, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}},
            }],
        },
    });
    api.post(GATEWAYS, &gateway).ok();
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
    api.merge(&format!("{GATEWAYS}/gw/status"), &json!({"status": status})).ok();
}

/// Answers one request as a model behind a gateway would, with one token, and counts the request.
fn answer(stream: TcpStream, asked: &AtomicUsize) -> std::io::Result<()> {
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
    assert!(head.starts_with("post /proof/llm/v1/completions ") && !head.contains("authorization"), "{head}");
    assert_eq!(request["max_tokens"], 1);
    asked.fetch_add(1, Ordering::SeqCst);
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 1});
    let said = json!({"model": request["model"], "choices": [{"text": "a"}], "usage": usage}).to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        said.len()
    );
    reader.get_mut().write_all((head + &said).as_bytes())
}

fn says(api: &Api, status: &str, reason: &str) -> String {
    until(&format!("ServingProven={status} {reason}"), || {
        make_ready(api, &["proof"].into());
        let service = api.get(&format!("{SERVICES}/llm")).ok();
        let mut conditions = service["status"]["conditions"].as_array()?.iter();
        let found = conditions.find(|found| found["type"] == "ServingProven")?;
        (found["status"] == status && found["reason"] == reason)
            .then(|| found["message"].as_str().unwrap_or_default().to_owned())
    })
}

#[test]
fn a_gateway_that_does_not_answer_is_named_and_one_that_does_is_asked_once() {
    let Some(cluster) = Turn::take() else { return };
    let api = &cluster.server.api;
    cluster.namespace("proof");
    cluster.namespace("proof-gateways");
    // A free port: nothing listens there yet.
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    make_gateway(api, port);
    let gateway = json!({"refs": [{"name": "gw", "namespace": "proof-gateways"}]});
    let service = json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
        "metadata": {"name": "llm", "annotations": {"longboat.dev/serving-proof": "report"}},
        "spec": {"model": {"uri": "hf://org/model"}, "router": {"route": {}, "gateway": gateway, "scheduler": {}}},
    });
    api.post(SERVICES, &service).ok();
    let said = says(api, "False", "GatewayUnreachable");
    assert!(
        said.contains(&format!("does not answer at http://127.0.0.1:{port}/proof/llm/v1/completions")),
        "{said}"
    );

    let asked = Arc::new(AtomicUsize::new(0));
    let (counter, listener) = (asked.clone(), TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let _ = answer(stream, &counter);
        }
    });
    let said = says(api, "True", "TokenReceived");
    assert!(said.starts_with("a token of model llm came back from http://127.0.0.1:"), "{said}");
    let record =
        |service: &Value| service["status"]["annotations"]["longboat.dev/serving-proof-record"].clone();
    let before = api.get(&format!("{SERVICES}/llm")).ok();
    assert!(record(&before).is_string(), "{before:#}");

    // A reconcile for another reason sends no second request.
    api.merge(
        &format!("{SERVICES}/llm"),
        &json!({"spec": {"router": {"scheduler": {"labels": {"note": "x"}}}}}),
    )
    .ok();
    let after = until("the change was looked at", || {
        let service = api.get(&format!("{SERVICES}/llm")).ok();
        (service["status"]["observedGeneration"] == service["metadata"]["generation"]).then_some(service)
    });
    assert_eq!(record(&after), record(&before));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    api.delete(&format!("{SERVICES}/llm")).ok();
    until("the service is gone", || (api.get(&format!("{SERVICES}/llm")).status == 404).then_some(()));
}
