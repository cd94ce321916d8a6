//! Requests in flight that are evicted to make room for others.

use std::sync::Arc;

use bytes::Bytes;
use longboat_extproc::{Action, Event, ImmediateResponse, Reply, names};

use super::support::{self, Stream};
use crate::{core::Core, monitoring::metrics_page};

/// One request per endpoint at a time. Further requests wait, or replace a request in flight that may be dropped.
const CONFIG: &str = "
featureGates: [flowControl]
plugins: [{type: queue-scorer}, {type: concurrency-detector, parameters: {maxConcurrency: 1}}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer}]}]
flowControl: {enableEviction: true, saturationDetector: {pluginRef: concurrency-detector}}
";
const CHAT: &str = "/v1/chat/completions";
const BODY: &[u8] = br#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
const BATCH: &[(&str, &str)] = &[("x-llm-d-inference-objective", "batch")];

fn picker(config: &str, endpoints: u8) -> Arc<Core> {
    let core = support::core(config);
    support::with_endpoints(&core, endpoints);
    core.admission.set_objectives([("batch".to_owned(), -1)].into());
    core
}

/// Sends a request that goes to an endpoint at once.
fn sent(core: &Arc<Core>, headers: &[(&str, &str)]) -> Stream {
    let mut stream = Stream::open(core);
    let replies = stream.request(CHAT, headers, BODY, None);
    assert!(matches!(&replies[0].action, Action::RequestHeaders(_)), "{replies:?}");
    stream
}

/// Sends a request that has to wait.
fn waits(core: &Arc<Core>, headers: &[(&str, &str)]) -> Stream {
    let mut stream = Stream::open(core);
    stream.feed(Event::RequestHeaders {
        headers: support::request_headers("POST", CHAT, headers),
        end_of_stream: false,
    });
    let (replies, _) =
        stream.feed(Event::RequestBody { body: Bytes::from_static(BODY), end_of_stream: true });
    assert_eq!(replies, []);
    stream
}

fn immediate(replies: &[Reply]) -> &ImmediateResponse {
    match replies {
        [Reply { action: Action::Immediate(answer), .. }] => answer,
        other => panic!("not an answer: {other:?}"),
    }
}

fn page(core: &Core) -> String {
    metrics_page(core)
}

#[test]
fn who_may_be_dropped_makes_room_for_who_may_not() {
    let core = picker(CONFIG, 1);
    let mut batch = sent(&core, BATCH);
    let mut other = waits(&core, BATCH);
    core.admission.turn(&core);
    assert_eq!(batch.poll(), [], "nobody goes for one of the same priority");
    let mut urgent = waits(&core, &[]);
    core.admission.turn(&core);
    let replies = batch.poll();
    let answer = immediate(&replies);
    assert_eq!((answer.status, answer.headers.get(names::DROPPED_REASON)), (429, Some("evicted")));
    assert_eq!(answer.body, Bytes::from_static(b"request evicted by flow control"));
    assert_eq!(other.poll(), [], "it still waits");
    drop(batch);
    assert!(matches!(&urgent.wait()[0].action, Action::RequestHeaders(_)));
    let page = page(&core);
    for series in [
        "llm_d_epp_flow_control_revocations_issued_total{inference_pool=\"pool\",priority=\"0\"} 1",
        "llm_d_epp_flow_control_revocations_total{inference_pool=\"pool\",outcome=\"confirmed\"} 1",
        "llm_d_epp_flow_control_revocation_confirmation_seconds_count{inference_pool=\"pool\"} 1",
        "llm_d_epp_flow_control_pending_reclaim{inference_pool=\"pool\"} 0.0",
        "error_code=\"ResourceExhausted\"} 1",
    ] {
        assert!(page.contains(series), "{series}\n{page}");
    }
}

#[test]
fn nobody_goes_from_a_pool_with_room_or_without_the_setting() {
    let core = picker(CONFIG, 2);
    let mut batch = sent(&core, BATCH);
    let _urgent = sent(&core, &[]);
    core.admission.turn(&core);
    assert_eq!(batch.poll(), []);
    let core = picker(&CONFIG.replace("enableEviction: true", "enableEviction: false"), 1);
    let mut batch = sent(&core, BATCH);
    let _urgent = waits(&core, &[]);
    core.admission.turn(&core);
    assert_eq!(batch.poll(), []);
}

#[test]
fn a_response_that_ends_while_it_is_evicted_is_complete() {
    let core = picker(CONFIG, 1);
    let mut batch = sent(&core, BATCH);
    let mut urgent = waits(&core, &[]);
    core.admission.turn(&core);
    let mut headers = longboat_extproc::Headers::new();
    headers.push(Bytes::from_static(b":status"), Bytes::from_static(b"200"));
    batch.feed(Event::ResponseHeaders { headers, end_of_stream: true });
    assert_eq!(batch.poll(), [], "an answer after the end would break the response");
    assert!(matches!(&urgent.wait()[0].action, Action::RequestHeaders(_)));
}

#[test]
fn a_client_that_leaves_while_it_waits_is_counted() {
    let core = picker(CONFIG, 1);
    let _first = sent(&core, &[]);
    let waiting = waits(&core, &[]);
    drop(waiting);
    let page = page(&core);
    assert!(page.contains("error_code=\"ServiceUnavailable\"} 1"), "{page}");
    assert!(page.contains("outcome=\"EvictedContextCancelled\""), "{page}");
}
