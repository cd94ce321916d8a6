//! Two vLLM under `up` that serve TLS, one for prefill and one for decode. They trust each other also after their certificate was
//! replaced, and that several times.

use serde_json::{Value, json};

use crate::{
    http::{Answer, block},
    install::Install,
    wait::until,
    world::{Engine, MODEL, World, service, template},
};

const COMPLETIONS: &str = "/v1/completions";
/// The Secret of the service `tls`.
const SECRET: &str = "tls-kserve-self-signed-certs";

#[test]
fn services_with_tls_answer_and_their_engines_serve_each_new_certificate() {
    let Some(install) = block(Install::find()) else { return };
    let config = json!({"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_buffer_device": "cpu"});
    let pod = template(&install, &format!("--max-model-len 1024 --kv-transfer-config '{config}'"));
    let fields = [("template", pod.clone()), ("prefill", json!({"replicas": 1, "template": pod}))];
    let model = install.folder("small").display().to_string();
    let items = [settings(), service("tls", &model, &fields)];
    let manifest = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let world = World::start("tls", &install.program(), &manifest, |_| {});
    let engines = ["prefill", "decode"].map(|role| world.engine(role));
    world.says("ServingProven", "True", "TokenReceived");
    world.says("KVTransferObserved", "True", "KVTransferred");
    assert_eq!(world.verb("doctor", &["-n", "default"]), json!([]), "nothing is wrong");

    for number in 0..4 {
        for is_stream in [false, true] {
            let body = request(number, is_stream);
            // For some seconds, the sidecar may know only one of the certificates that prefill and decode have.
            let through = until("an answer", || {
                Some(world.post(COMPLETIONS, &body)).filter(|answer| answer.status == 200)
            });
            assert_eq!(text(&through), text(&engines[0].post(COMPLETIONS, &body)), "{body}");
        }
        let old = engines.each_ref().map(Engine::certificate);
        world.cluster.ask(&["delete", "secret", SECRET]);
        for (engine, old) in engines.iter().zip(old) {
            until(&format!("new certificate {number}"), || (engine.certificate() != old).then_some(()));
        }
    }
}

/// The settings of the platform with TLS.
fn settings() -> Value {
    let gateway = "kserve/kserve-ingress-gateway";
    let ingress = json!({"enableLLMInferenceServiceTLS": true,
        "ingressGateway": gateway, "kserveIngressGateway": gateway});
    let storage = json!({"memoryRequest": "1Gi", "memoryLimit": "1Gi", "cpuRequest": "1", "cpuLimit": "1"});
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "inferenceservice-config", "namespace": "kserve"},
        "data": {"ingress": ingress.to_string(), "storageInitializer": storage.to_string()}})
}

/// A request whose prompt no cache has.
fn request(number: usize, is_stream: bool) -> Value {
    let prompt = "salt ".repeat(300);
    json!({"model": MODEL, "prompt": prompt, "max_tokens": 8, "temperature": 0, "ignore_eos": true, "stream": is_stream,
        "cache_salt": format!("{number} {is_stream}")})
}

/// The text of an answer, at once or streamed.
fn text(answer: &Answer) -> String {
    let events: Vec<&str> = answer.body.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    if events.is_empty() {
        return answer.json()["choices"][0]["text"].as_str().unwrap().to_owned();
    }
    assert_eq!(events.last(), Some(&"[DONE]"), "{answer:?}");
    let events = events.iter().filter_map(|event| serde_json::from_str::<Value>(event).ok());
    events.filter_map(|event| Some(event["choices"][0]["text"].as_str()?.to_owned())).collect()
}
