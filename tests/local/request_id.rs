//! The id of a request leads through the logs of the gateway, the picker, the sidecar and both engines.

use serde_json::json;

use crate::{http, local_cluster::LocalCluster, tools, wait::until};

const FILTER: &str =
    "error,longboat_gateway=debug,longboat_epp=debug,longboat_sidecar=debug,longboat_serving=debug";

#[test]
fn one_id_leads_through_the_logs_of_every_part() {
    if tools::kubectl().is_none() {
        return;
    }
    let manifest = tools::root().join("examples/prefill-decode/service.yaml");
    let world = LocalCluster::start_logging(FILTER, &[manifest.to_str().unwrap()]);
    let id = "7d0c6b1e-one-request";
    let body = json!({"model": "Qwen/Qwen2.5-7B-Instruct", "max_tokens": 5, "messages": [
        {"role": "user", "content": "Why is the sea salty? ".repeat(100)},
    ]});
    let answer = http::block(async {
        let request = http::client().post(format!("{}/v1/chat/completions", world.url));
        request.header("x-request-id", id).json(&body).send().await.unwrap()
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
}
