//! The id of a request leads through the logs of the gateway, the picker, the sidecar and both engines, and the picker's spans belong to
//! the trace of its client.

use serde_json::json;

use crate::{collector::Collector, http, local_cluster::LocalCluster, tools, wait::until};

/// A sampled trace, so that the picker's ratio does not count.
const TRACE: u128 = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c;
const CALLER: u64 = 0xb7ad_6b71_6920_3331;

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
            .header("traceparent", format!("00-{TRACE:032x}-{CALLER:016x}-01"))
            .json(&body)
            .send()
            .await
            .unwrap()
    });
    assert_eq!((answer.status().as_u16(), answer.headers()["x-request-id"].to_str().unwrap()), (200, id));

    // A request that engines refuse has lines, too.
    let refused_id = "7d0c6b1e-refused-request";
    let refused = http::block(async {
        let request = http::client().post(format!("{}/v1/chat/completions", world.url));
        let mut body = body.clone();
        body["temperature"] = json!(9);
        request.header("x-request-id", refused_id).json(&body).send().await.unwrap()
    });
    assert_eq!(refused.status().as_u16(), 400);

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
    // The prompt is computed first, so the engine that computes it refuses.
    let log = || world.ask(&["logs", "--tail=-1", "-l", "llm-d.ai/role=prefill", "-c", "main"]);
    until("the line of the engine that refused", || {
        log().lines().any(|line| line.contains(refused_id) && line.contains("Refused a request."))
    });

    let span = |name: &str| {
        let mut all = collector.arrived().into_iter().filter(|found| found.service == "inference-scheduler");
        all.find(|found| found.span.name == name && found.span.trace_id == TRACE.to_be_bytes())
    };
    until("the picker's spans", || span("gateway.request").is_some());
    let (request, decision) =
        (span("gateway.request").unwrap(), span("gateway.request_orchestration").unwrap());
    assert_eq!(request.span.parent_span_id, CALLER.to_be_bytes());
    assert_eq!(decision.span.parent_span_id, request.span.span_id);
    assert_eq!(request.attribute("http.response.status_code").as_deref(), Some("200"));
    assert_eq!(decision.attribute("target_model").as_deref(), Some("Qwen/Qwen2.5-7B-Instruct"));
    assert!(decision.attribute("destination").is_some());
}
