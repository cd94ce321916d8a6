//! Requests that are scheduled by predicted latency, and the measurements that are sent to the predictor.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use longboat_extproc::{Action, Event, Reply, names};
use longboat_scheduler::Metrics;
use serde_json::Value;

use super::support::{self, Stream};
use crate::{
    core::Core,
    latency::tests::{Behaviour, predictor, server},
    monitoring::metrics_page,
};

const STREAMING: &str = "
plugins:
- type: predicted-latency-producer
  parameters: {streamingMode: true}
- type: slo-headroom-tier-filter
  parameters: {epsilonExploreNeg: 0}
- type: latency-scorer
";
const WHOLE: &str = "
plugins:
- type: latency-scorer
- type: latency-slo-admitter
";

/// A picker with two endpoints. The first has five waiting requests, so its first token is predicted after 500 ms.
fn picker(config: &str, predict: &str, train: &str) -> Arc<Core> {
    let mut core = support::core_of(config);
    core.predictor = Some(predictor(predict, train, &[]));
    let core = Arc::new(core);
    support::with_endpoints(&core, 2);
    let members = core.pool.members();
    members[0].scraped(Metrics { waiting: 5.0, ..Metrics::default() });
    core
}

fn destination(replies: &[Reply]) -> String {
    let Action::RequestHeaders(changes) = &replies[0].action else { panic!("{replies:?}") };
    changes.get(names::DESTINATION).unwrap().to_owned()
}

fn ask(core: &Arc<Core>, headers: &[(&str, &str)]) -> (Stream, Vec<Reply>) {
    let mut stream = Stream::open(core);
    let body = br#"{"model":"m","prompt":"hi","stream":true}"#;
    let replies = stream.request("/v1/completions", headers, body, None);
    (stream, replies)
}

fn response(status: &str, kind: &str) -> Event {
    let mut headers = longboat_extproc::Headers::new();
    headers.push(Bytes::from_static(b":status"), Bytes::copy_from_slice(status.as_bytes()));
    headers.push(Bytes::from_static(b"content-type"), Bytes::copy_from_slice(kind.as_bytes()));
    Event::ResponseHeaders { headers, end_of_stream: false }
}

fn body(text: &str, end_of_stream: bool) -> Event {
    Event::ResponseBody { body: Bytes::copy_from_slice(text.as_bytes()), end_of_stream }
}

/// Waits until a training server has received measurements, and returns them.
async fn lessons(asked: &parking_lot::Mutex<Vec<(String, Value)>>) -> Vec<Value> {
    loop {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let asked = asked.lock();
        let sent = asked.iter().filter_map(|(_, body)| body["entries"].as_array().cloned());
        let all: Vec<Value> = sent.flatten().collect();
        if !all.is_empty() {
            return all;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_goes_where_it_is_predicted_to_be_in_time() {
    let (url, _) = server(Behaviour::Answers).await;
    let core = picker(STREAMING, &url, &url);
    for _ in 0..4 {
        let (_stream, replies) = ask(&core, &[("x-slo-ttft-ms", "200"), ("x-llm-d-slo-tpot-ms", "50")]);
        assert_eq!(destination(&replies), "127.0.1.2:18300");
    }
    let page = metrics_page(&core);
    let calls = "llm_d_epp_latency_predictor_calls_total{call=\"predict\",outcome=\"answered\"} 4";
    assert!(page.contains(calls), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_teaches_both_times_and_a_failed_or_cut_response_teaches_nothing() {
    let (url, asked) = server(Behaviour::Answers).await;
    let core = picker(STREAMING, &url, &url);
    let (mut failed, _) = ask(&core, &[]);
    failed.feed(response("500", "text/plain"));
    failed.feed(body("no", true));
    let (mut cut, _) = ask(&core, &[]);
    cut.feed(response("200", "text/event-stream"));
    drop((failed, cut));
    let (mut stream, _) = ask(&core, &[("x-slo-ttft-ms", "0.001")]);
    stream.feed(response("200", "text/event-stream"));
    std::thread::sleep(Duration::from_millis(20));
    stream.feed(body("data: 1\n\n", false));
    std::thread::sleep(Duration::from_millis(20));
    stream.feed(body("data: 2\n\n", false));
    stream.feed(body("data: [DONE]\n\n", true));
    let lessons = lessons(&asked).await;
    assert_eq!(lessons.len(), 2, "{lessons:?}");
    let time = |lesson: &Value, name: &str| lesson[name].as_f64().unwrap();
    assert!(time(&lessons[0], "actual_ttft_ms") >= 20.0 && time(&lessons[0], "actual_tpot_ms") == 0.0);
    assert!(time(&lessons[1], "actual_ttft_ms") == 0.0 && time(&lessons[1], "actual_tpot_ms") >= 10.0);
    assert_eq!(lessons[0]["input_token_length"], 1);
    let page = metrics_page(&core);
    for series in [
        "llm_d_epp_request_slo_violation_total{plugin_name=\"predicted-latency-producer\"",
        "inference_objective_request_slo_violation_total{model_name=\"m\",target_model_name=\"m\",type=\"ttft\"} 1",
        "llm_d_epp_request_predicted_tpot_seconds_count{plugin_name=\"predicted-latency-producer\"",
        "inference_objective_request_ttft_seconds_count{model_name=\"m\",target_model_name=\"m\"} 1",
    ] {
        assert!(page.contains(series), "{series}\n{page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_streams_the_whole_response_is_the_first_token() {
    let (url, asked) = server(Behaviour::Answers).await;
    let core = picker(WHOLE, &url, &url);
    let (mut stream, _) = ask(&core, &[]);
    stream.feed(response("200", "application/json"));
    stream.feed(body("{}", true));
    let lessons = lessons(&asked).await;
    assert_eq!((lessons.len(), &lessons[0]["actual_tpot_ms"]), (1, &Value::from(0.0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_go_on_while_the_predictor_is_away() {
    let (train, asked) = server(Behaviour::Untrained).await;
    let (hangs, _) = server(Behaviour::Hangs).await;
    for away in ["http://127.0.0.1:1", hangs.as_str(), train.as_str()] {
        let core = picker(WHOLE, away, &train);
        for _ in 0..6 {
            let (_stream, replies) = ask(&core, &[("x-slo-ttft-ms", "1")]);
            assert_eq!(destination(&replies), "127.0.1.2:18300", "the one whose queue is empty");
        }
        assert!(!core.predictor.as_ref().unwrap().may_send(), "it is asked no more");
    }
    let core = picker(WHOLE, "http://127.0.0.1:1", &train);
    let (mut stream, _) = ask(&core, &[]);
    stream.feed(response("200", "application/json"));
    stream.feed(body("{}", true));
    assert_eq!(lessons(&asked).await.len(), 1, "it learns all the same");
}

#[test]
fn the_first_tokens_of_streams_are_observed_and_those_of_other_responses_are_not() {
    let core = Arc::new(support::core_of(
        "apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\nplugins: [{type: latency-observation-scorer-hub}]\n",
    ));
    support::with_endpoints(&core, 1);
    let events = "text/event-stream";
    for (status, kind) in [("200", events), ("200", "application/json"), ("500", events), ("200", events)] {
        let (mut stream, _) = ask(&core, &[]);
        stream.feed(response(status, kind));
        stream.feed(body("data: 1\n\n", false));
        stream.feed(body("data: [DONE]\n\n", true));
    }
    let members = core.pool.members();
    let endpoints: Vec<_> = members.iter().map(|member| &member.endpoint).collect();
    let state = core.scheduler.describe(&core.state.read(), &endpoints, core.now_ms());
    let observed = &state["plugins"]["latency-observer-producer-hub"];
    let observed = observed.as_object().unwrap().values().next().unwrap();
    assert_eq!((&observed["observations"], &observed["calibrated"]), (&2.into(), &false.into()));
}
