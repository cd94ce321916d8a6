//! Requests that try to exhaust memory with headers, names of models and flows, and combinations of both.

use std::sync::Arc;

use bytes::Bytes;
use longboat_extproc::{Action, Event, Headers};

use super::support::{self, Stream};
use crate::{core::Core, monitoring::metrics_page};

const PATH: &str = "/v1/completions";

fn picker() -> Arc<Core> {
    let core = support::core("");
    support::with_endpoints(&core, 1);
    core
}

/// The number of series that distinguish requests on a page.
fn series(page: &str) -> usize {
    page.lines().filter(|line| line.starts_with("llm_d_epp_request_total{")).count()
}

/// What readers of the metrics page read at most: the dashboard, and the autoscalers of `longboat up`.
const MAX_PAGE: usize = 4 << 20;

/// A value with as many bytes on the page as a label may have.
fn long(name: &str, number: usize) -> String {
    format!("{name}{number:04}{}", "\"".repeat(75))
}

/// A thousand requests may be in flight at ten endpoints. Others wait.
const FULL: &str = "
featureGates: [flowControl]
plugins: [{type: queue-scorer}, {type: concurrency-detector, parameters: {maxConcurrency: 100}}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer}]}]
flowControl: {saturationDetector: {pluginRef: concurrency-detector}}
";

/// Sends a request and answers it with this status.
fn ask(core: &Arc<Core>, model: &str, flow: &str, status: &str) -> Stream {
    let mut stream = Stream::open(core);
    let body = serde_json::json!({"model": model, "prompt": "x"}).to_string();
    let headers = support::request_headers("POST", PATH, &[("x-llm-d-inference-fairness-id", flow)]);
    stream.feed(Event::RequestHeaders { headers, end_of_stream: false });
    stream.feed(Event::RequestBody { body: body.into(), end_of_stream: true });
    let mut headers = Headers::new();
    headers.push(":status", Bytes::copy_from_slice(status.as_bytes()));
    headers.push("content-type", "text/event-stream");
    stream.feed(Event::ResponseHeaders { headers, end_of_stream: false });
    let body = Bytes::from_static(b"data: {\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":5}}\n\n");
    stream.feed(Event::ResponseBody { body, end_of_stream: false });
    stream
}

#[test]
fn a_page_stays_short_whatever_models_and_flows_clients_make_up() {
    let core = support::core(FULL);
    support::with_endpoints(&core, 10);
    let mut streams = Vec::new();
    for number in 0..3000 {
        let model = if number % 2 == 0 { long("m", number) } else { "real".to_owned() };
        let status = if model == "real" { "200" } else { "404" };
        streams.push(ask(&core, &model, &long("f", number), status));
    }
    drop(streams.drain(..2000));
    let page = metrics_page(&core);
    assert!(page.len() < MAX_PAGE, "{} bytes", page.len());
    let total: u64 = page
        .lines()
        .filter(|line| line.starts_with("llm_d_epp_request_total{"))
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum();
    assert_eq!(total, 3000, "each request is counted");
    let histogram = "inference_objective_request_duration_seconds_count{";
    let named = |page: &str, model: &str| page.contains(&format!("{histogram}model_name=\"{model}\""));
    assert!(!named(&page, "m0000"), "no endpoint has served it");
    assert!(named(&page, "real"));
    drop(streams);
    core.admission.turn(&core);
    ask(&core, "late", "f", "200");
    ask(&core, "late", "f", "200");
    assert!(named(&metrics_page(&core), "late"), "a model that is served still has series");
}

#[test]
fn a_page_stays_short_if_endpoints_serve_any_model() {
    let core = picker();
    for number in 0..3000 {
        ask(&core, &long("m", number), &long("f", number), "200");
    }
    let page = metrics_page(&core);
    assert!(page.len() < MAX_PAGE, "{} bytes", page.len());
}

#[test]
fn long_names_are_not_kept() {
    let core = picker();
    let (long, other) = ("f".repeat(60_000), format!("{}g", "f".repeat(59_999)));
    let body = format!("{{\"model\":\"{}\",\"prompt\":\"x\"}}", "m".repeat(4000));
    let mut stream = Stream::open(&core);
    for flow in [&long, &other] {
        stream = Stream::open(&core);
        stream.request(PATH, &[("x-llm-d-inference-fairness-id", flow)], body.as_bytes(), None);
    }
    let page = metrics_page(&core);
    assert!(page.lines().all(|line| line.len() < 1000));
    assert!(page.contains("model_name=\"other\""));
    assert_eq!(series(&page), 2, "they are two flows still");
    drop(stream);
    assert_eq!(core.bodies.held(), 0);
}

#[test]
fn headers_count_as_memory_and_a_million_of_them_are_refused() {
    let core = picker();
    let open = |count: usize| {
        let mut headers = support::request_headers("POST", PATH, &[]);
        for _ in 0..count {
            headers.push("", "");
        }
        let mut stream = Stream::open(&core);
        let (replies, _) = stream.feed(Event::RequestHeaders { headers, end_of_stream: false });
        (stream, replies)
    };
    let (stream, replies) = open(1000);
    assert!(replies.is_empty());
    assert!(core.bodies.held() > 64_000, "{}", core.bodies.held());
    let (_refused, replies) = open(1_000_000);
    let [reply] = &replies[..] else { panic!("{replies:?}") };
    assert!(matches!(&reply.action, Action::Immediate(response) if response.status == 431));
    let mut crowd = Vec::new();
    let refused = (0..100_000).find_map(|_| {
        let (stream, replies) = open(10_000);
        crowd.push(stream);
        replies.into_iter().next()
    });
    assert!(
        matches!(refused.map(|reply| reply.action), Some(Action::Immediate(response)) if response.status == 503),
        "streams that never end do not fill memory"
    );
    drop((stream, crowd));
    assert_eq!(core.bodies.held(), 0);
}
