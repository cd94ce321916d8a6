//! The id of a request leads through the logs of the gateway, the picker, the sidecar and both engines, and the picker's spans belong to
//! the trace of its client.

use serde_json::json;

use crate::{collector::Collector, http, local_cluster::LocalCluster, tools, wait::until};

/// A sampled trace, so that the picker's ratio does not count.
const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

const FILTER: &str =
    "error,longboat_gateway=debug,longboat_epp=debug,longboat_sidecar=debug,longboat_serving=debug";

#[test]
fn one_id_leads_through_the_logs_of_every_part_and_one_trace_through_the_picker() {
    if tools::kubectl().is_none() {
        return;
    }
    let collector = http::block(Collector::start());
    let example =
        std::fs::read_to_string(tools::root().join("examples/prefill-decode/service.yaml")).unwrap();
    let tracing = format!("\nspec:\n  tracing: {{exporterEndpoint: \"{}\"}}\n", collector.url);
    let manifest = tempfile::Builder::new().suffix(".yaml").tempfile().unwrap();
    std::fs::write(manifest.path(), example.replacen("\nspec:\n", &tracing, 1)).unwrap();
    let world = LocalCluster::start_logging(FILTER, &[manifest.path().to_str().unwrap()]);
    let id = "7d0c6b1e-one-request";
    let body = json!({"model": "Qwen/Qwen2.5-7B-Instruct", "max_tokens": 5, "messages": [
        {"role": "user", "content": "Why is the sea salty? ".repeat(100)},
    ]});
    let answer = http::block(async {
        let request = http::client().post(format!("{}/v1/chat/completions", world.url));
        request
            .header("x-request-id", id)
            .header("traceparent", TRACEPARENT)
            .json(&body)
            .send()
            .await
            .unwrap()
    });
    assert_eq!((answer.status().as_u16(), answer.headers()["x-request-id"].to_str().unwrap()), (200, id));

    let about =
        |log: &str, message: &str| log.lines().any(|line| line.contains(id) && line.contains(message));
    let refused = http::block(async {
        let request = http::client().post(format!("{}/v1/chat/completions", world.url));
        request.header("x-request-id", "9e-refused").body("no JSON").send().await.unwrap()
    });
    assert!(refused.status().is_client_error(), "{}", refused.status());
    until("the gateway's line of a refusal", || {
        let log = world.running.stderr();
        log.lines().any(|line| line.contains("9e-refused") && line.contains("Answering a request."))
    });
    until("the gateway's line", || about(&world.running.stderr(), "Forwarding a request."));
    for (pods, container, message) in [
        (
            "app.kubernetes.io/component=llminferenceservice-router-scheduler",
            "main",
            "Chose a pod for a request.",
        ),
        ("llm-d.ai/role=decode", "llm-d-routing-sidecar", "Forwarding a request."),
        ("llm-d.ai/role=decode", "main", "Answering a request."),
        ("llm-d.ai/role=prefill", "main", "Answering a request."),
    ] {
        let log = || world.ask(&["logs", "--tail=-1", "-l", pods, "-c", container]);
        until(&format!("a line of {pods} {container}"), || about(&log(), message));
    }

    let span = |name: &str| {
        let mut all = collector.arrived().into_iter();
        all.find(|found| found.span.name == name && found.service == "inference-scheduler")
    };
    until("the picker's spans", || span("gateway.request").is_some());
    let (request, decision) =
        (span("gateway.request").unwrap(), span("gateway.request_orchestration").unwrap());
    assert!(TRACEPARENT.contains(&hex(&request.span.trace_id)));
    assert!(TRACEPARENT.contains(&hex(&request.span.parent_span_id)));
    assert_eq!(decision.span.parent_span_id, request.span.span_id);
    assert_eq!(request.attribute("http.response.status_code").as_deref(), Some("200"));
    assert_eq!(decision.attribute("target_model").as_deref(), Some("Qwen/Qwen2.5-7B-Instruct"));
    assert!(decision.attribute("destination").is_some());
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
