//! No component buffers a streamed response.

use futures::StreamExt;
use serde_json::json;

use crate::{
    http,
    local_cluster::{LocalCluster, MODEL},
    tools,
    wait::until,
};

#[test]
fn chunks_come_while_the_engine_still_works_and_a_client_that_goes_ends_its_work() {
    if tools::kubectl().is_none() {
        return;
    }
    let world = LocalCluster::shared();
    // The stream lasts far longer than the test. If a component buffered it, the first chunk would not arrive.
    let body = json!({
        "model": MODEL, "stream": true, "max_tokens": 20_000, "min_tokens": 20_000, "ignore_eos": true,
        "messages": [{"role": "user", "content": "Tell me everything."}],
    });
    let url = format!("{}/v1/chat/completions", world.url);
    let response = http::block(async { http::client().post(&url).json(&body).send().await.unwrap() });
    let pod = response.headers()["x-inference-pod"].to_str().unwrap().to_owned();
    let address = world.ask(&["get", "pod", &pod, "-o", "jsonpath={.status.podIP}"]);
    let mut chunks = response.bytes_stream();
    let mut seen = String::new();
    while seen.matches("data: ").count() < 5 {
        let chunk = http::block(chunks.next()).expect("the stream ended early").unwrap();
        seen.push_str(&String::from_utf8_lossy(&chunk));
    }
    assert!(!seen.contains("[DONE]"), "{seen}");
    assert!((running(&address) - 1.0).abs() < f64::EPSILON, "the engine is in the middle of its answer");

    drop(chunks);
    until("the engine gives up the request", || running(&address).abs() < f64::EPSILON);
}

/// Returns the number of running requests, from the engine's metrics.
fn running(address: &str) -> f64 {
    let metrics = http::get(&format!("http://{address}:8000/metrics")).body;
    let line = metrics.lines().find(|line| line.starts_with("vllm:num_requests_running{"));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("{metrics}"))
}
