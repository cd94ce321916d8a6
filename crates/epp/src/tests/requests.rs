//! Single requests, without the wire.

use std::sync::Arc;

use bytes::Bytes;
use longboat_extproc::{Action, Event, HeaderChanges, Headers, Incoming, Metadata, Reply, names};
use longboat_scheduler::Slot;
use serde_json::json;

use super::support::{self, Stream};
use crate::{core::Core, monitoring::metrics_page};

pub(super) const CHAT: &str = "/v1/chat/completions";
pub(super) const BODY: &[u8] = br#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;

fn picker(endpoints: u8) -> Arc<Core> {
    let core = support::core("");
    support::with_endpoints(&core, endpoints);
    core
}

pub(super) fn status(replies: &[Reply]) -> u16 {
    match replies {
        [Reply { action: Action::Immediate(immediate), .. }] => immediate.status,
        other => panic!("not refused: {other:?}"),
    }
}

fn changes(reply: &Reply) -> &HeaderChanges {
    match &reply.action {
        Action::RequestHeaders(changes) | Action::ResponseHeaders(changes) => changes,
        other => panic!("not headers: {other:?}"),
    }
}

pub(super) fn body(bytes: &'static [u8], end_of_stream: bool) -> Event {
    Event::RequestBody { body: Bytes::from_static(bytes), end_of_stream }
}

fn response(status: &'static str, content_type: &'static str) -> Event {
    let mut headers = Headers::new();
    headers.push(":status", status);
    headers.push("content-type", content_type);
    Event::ResponseHeaders { headers, end_of_stream: false }
}

fn response_body(bytes: &'static [u8], end_of_stream: bool) -> Event {
    Event::ResponseBody { body: Bytes::from_static(bytes), end_of_stream }
}

pub(super) fn in_flight(core: &Core) -> u64 {
    (0..8).map(|slot| core.state.read().in_flight(Slot(slot)).0).sum()
}

pub(super) fn open(core: &Arc<Core>) -> Stream {
    let mut stream = Stream::open(core);
    stream.feed(Event::RequestHeaders {
        headers: support::request_headers("POST", CHAT, &[]),
        end_of_stream: false,
    });
    stream
}

#[test]
fn a_body_that_came_in_pieces_goes_on_whole() {
    let core = picker(2);
    let mut stream = open(&core);
    let (head, tail) = BODY.split_at(20);
    assert_eq!(stream.feed(body(head, false)).0, []);
    let (replies, finished) = stream.feed(body(tail, true));
    assert!(!finished);
    assert_eq!(replies.len(), 2);
    assert!(changes(&replies[0]).clear_route_cache);
    assert_eq!(
        replies[1].action,
        Action::RequestBody { body: Bytes::from_static(BODY), end_of_stream: true }
    );
}

#[test]
fn trailers_end_a_body() {
    let core = picker(1);
    let mut stream = open(&core);
    assert_eq!(stream.feed(body(BODY, false)).0, []);
    let (replies, _) = stream.feed(Event::RequestTrailers(Headers::new()));
    assert_eq!(
        replies[1].action,
        Action::RequestBody { body: Bytes::from_static(BODY), end_of_stream: false }
    );
    assert_eq!(replies[2].action, Action::RequestTrailers(HeaderChanges::default()));
}

#[test]
fn a_second_end_of_the_body_is_ignored() {
    let core = picker(1);
    let mut stream = open(&core);
    assert_eq!(stream.feed(body(BODY, true)).0.len(), 2);
    assert_eq!(stream.feed(body(b"", true)), (Vec::new(), false));
}

#[test]
fn a_request_without_a_body_goes_anywhere() {
    let core = picker(1);
    let mut stream = Stream::open(&core);
    let (replies, _) = stream.feed(Event::RequestHeaders {
        headers: support::request_headers("GET", "/v1/models", &[]),
        end_of_stream: true,
    });
    assert_eq!(changes(&replies[0]).get(names::DESTINATION), Some("127.0.1.1:18300"));
    assert_eq!(replies[0].metadata.destination(), Some("127.0.1.1:18300"));
    let (replies, _) = stream.feed(response("200", "application/json"));
    assert_eq!(changes(&replies[0]).get("x-went-into-resp-headers"), Some("true"));
    let (replies, _) = stream.feed(response_body(b"{}", true));
    assert_eq!(
        replies[0].action,
        Action::ResponseBody { body: Bytes::from_static(b"{}"), end_of_stream: true }
    );
}

#[test]
fn a_body_over_the_limit_is_refused_before_it_is_complete() {
    let core = picker(1);
    let mut stream = open(&core);
    let mut refused = Vec::new();
    for _ in 0..20 {
        let chunk = Event::RequestBody { body: Bytes::from(vec![b' '; 60_000]), end_of_stream: false };
        let (replies, finished) = stream.feed(chunk);
        if finished {
            refused = replies;
            break;
        }
    }
    assert_eq!(status(&refused), 413);
}

#[test]
fn an_unknown_path_and_a_pool_without_endpoints_are_refused() {
    let core = picker(0);
    let mut stream = Stream::open(&core);
    assert_eq!(status(&stream.request(CHAT, &[], BODY, None)), 503);
    let mut stream = Stream::open(&core);
    assert_eq!(status(&stream.request("/v1/what?x", &[], BODY, None)), 400);
}

#[test]
fn a_subset_hint_with_ipv6_or_without_ports_is_understood() {
    let core = support::core("");
    core.set_endpoints(vec![
        support::desired("v6", "[fd00::1]:8000".parse().unwrap(), &[]),
        support::desired("v4", "10.0.0.1:8000".parse().unwrap(), &[]),
    ]);
    for (hint, expected) in
        [("[fd00::1]:8000", "[fd00::1]:8000"), ("fd00::1", "[fd00::1]:8000"), ("10.0.0.1", "10.0.0.1:8000")]
    {
        let mut metadata = Metadata::default();
        metadata.insert(names::SUBSET_NAMESPACE, names::DESTINATION_SUBSET, json!([hint, 5]));
        let replies = Stream::open(&core).request(CHAT, &[], BODY, Some(metadata));
        assert_eq!(changes(&replies[0]).get(names::DESTINATION), Some(expected), "{hint}");
    }
}

#[test]
fn every_chunk_of_a_response_passes_at_once() {
    let core = picker(1);
    let mut stream = Stream::open(&core);
    stream.request(CHAT, &[], BODY, None);
    for kind in ["text/event-stream", "application/json"] {
        stream.feed(response("200", kind));
        for chunk in [b"data: {}\n\n".as_slice(), b"data: [DONE]\n\n"] {
            let (replies, _) = stream.feed(response_body(chunk, false));
            assert_eq!(
                replies,
                [Reply::from(Action::ResponseBody { body: Bytes::from_static(chunk), end_of_stream: false })]
            );
        }
    }
}

#[test]
fn a_request_counts_as_in_flight_until_its_response_is_complete() {
    let core = picker(3);
    let mut stream = Stream::open(&core);
    stream.request(CHAT, &[], BODY, None);
    assert_eq!(in_flight(&core), 1);
    stream.feed(response("200", "application/json"));
    stream.feed(response_body(b"{}", false));
    assert_eq!(in_flight(&core), 1);
    stream.feed(response_body(b"", true));
    assert_eq!(in_flight(&core), 0);
}

#[test]
fn a_request_that_is_given_up_is_no_longer_in_flight() {
    let core = picker(3);
    let mut stream = Stream::open(&core);
    stream.request(CHAT, &[], BODY, None);
    drop(stream);
    assert_eq!(in_flight(&core), 0);
}

#[test]
fn an_endpoint_that_goes_while_a_response_streams_leaves_nothing_behind() {
    let core = picker(1);
    let mut stream = Stream::open(&core);
    stream.request(CHAT, &[], BODY, None);
    core.set_endpoints(vec![support::desired("new", "10.0.0.9:1".parse().unwrap(), &[])]);
    assert_eq!(in_flight(&core), 0, "its slot is the new endpoint's");
    drop(stream);
    assert_eq!(in_flight(&core), 0);
}

#[test]
fn a_rewritten_model_is_patched_in_and_put_back() {
    let core = picker(1);
    let rewrite = [("x-llm-d-model-name-rewrite", "internal")];
    let mut stream = Stream::open(&core);
    let replies = stream.request(CHAT, &rewrite, BODY, None);
    let Action::RequestBody { body: sent, .. } = &replies[1].action else {
        panic!("{replies:?}");
    };
    let expected = br#"{"model":"internal","messages":[{"role":"user","content":"hi"}]}"#;
    assert_eq!(sent.as_ref(), expected);
    assert_eq!(changes(&replies[0]).get("content-length"), Some(expected.len().to_string().as_str()));
    assert_eq!(changes(&replies[0]).get("x-llm-d-model-name-rewrite"), None);
    // A response that is not a stream is held until the name is complete.
    stream.feed(response("200", "application/json"));
    assert_eq!(stream.feed(response_body(br#"{"model": "inte"#, false)).0, []);
    let (replies, _) = stream.feed(response_body(br#"rnal","id":1}"#, true));
    assert_eq!(
        replies[0].action,
        Action::ResponseBody { body: Bytes::from_static(br#"{"model": "m","id":1}"#), end_of_stream: true }
    );
    // A stream is not held.
    let mut stream = Stream::open(&core);
    stream.request(CHAT, &rewrite, BODY, None);
    stream.feed(response("200", "text/event-stream"));
    let (replies, _) = stream.feed(response_body(b"data: {\"model\":\"internal\"}\n\n", false));
    assert_eq!(
        replies[0].action,
        Action::ResponseBody {
            body: Bytes::from_static(b"data: {\"model\":\"m\"}\n\n"),
            end_of_stream: false
        }
    );
}

#[test]
fn headers_with_several_fields_are_not_echoed_and_ids_are_made_up() {
    let core = picker(1);
    let mut stream = Stream::open(&core);
    let replies = stream.request(CHAT, &[("cookie", "a"), ("cookie", "b"), ("X-One", "1")], BODY, None);
    let changes = changes(&replies[0]);
    assert_eq!((changes.get("cookie"), changes.get("x-one")), (None, Some("1")));
    assert_eq!(changes.get("x-request-id").unwrap().len(), 36);
}

#[test]
fn metrics_show_requests_tokens_and_endpoints_under_both_names() {
    let core = picker(2);
    let mut stream = Stream::open(&core);
    stream.request(CHAT, &[], BODY, None);
    stream.feed(response("200", "text/event-stream"));
    stream.feed(response_body(b"data: {\"usage\":null}\n\n", false));
    let usage = b"data: {\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":3,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\ndata: [DONE]\n\n";
    stream.feed(response_body(usage, true));
    let page = metrics_page(&core);
    for line in [
        "llm_d_epp_request_total{model_name=\"m\",target_model_name=\"m\",fairness_id=\"default-flow\",priority=\"0\"} 1",
        "inference_objective_request_total{model_name=\"m\",target_model_name=\"m\",priority=\"0\"} 1",
        "inference_objective_input_tokens_sum{model_name=\"m\",target_model_name=\"m\"} 12.0",
        "inference_objective_prompt_cached_tokens_sum{model_name=\"m\",target_model_name=\"m\"} 4.0",
        "inference_pool_ready_pods{name=\"pool\"} 2",
        "llm_d_epp_ready_endpoints{name=\"pool\"} 2",
        "llm_d_epp_prefix_indexer_size{plugin_name=\"approx-prefix-cache-producer\",plugin_type=\"approx-prefix-cache-producer\"} 1",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\nis not in\n{page}");
    }
}

#[test]
fn refused_requests_are_counted_as_errors() {
    let core = picker(0);
    Stream::open(&core).request(CHAT, &[], BODY, None);
    Stream::open(&core).request(CHAT, &[], b"{}", None);
    let page = metrics_page(&core);
    for line in [
        "inference_objective_request_error_total{model_name=\"m\",target_model_name=\"m\",error_code=\"ServiceUnavailable\"} 1",
        "inference_objective_request_error_total{model_name=\"\",target_model_name=\"\",error_code=\"BadRequest\"} 1",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\nis not in\n{page}");
    }
}

#[test]
fn mistakes_of_clients_that_the_engine_finds_are_not_counted_as_its_errors() {
    let core = picker(1);
    for status in ["400", "404", "429", "500", "503"] {
        let mut stream = Stream::open(&core);
        stream.request(CHAT, &[], BODY, None);
        stream.feed(response(status, "application/json"));
        stream.feed(response_body(b"{}", true));
    }
    let page = metrics_page(&core);
    for (code, count) in [("BadRequest", 2), ("ModelServerError", 3)] {
        let line = format!(
            "inference_objective_request_error_total{{model_name=\"m\",target_model_name=\"m\",error_code=\"{code}\"}} {count}"
        );
        assert!(page.lines().any(|found| found == line), "{line}\nis not in\n{page}");
    }
}

#[test]
fn unscraped_endpoints_rank_last() {
    let core = support::core("");
    let address = |last: u8| ([10, 0, 0, last], 8000).into();
    core.set_endpoints(vec![
        support::desired("scraped", address(1), &[]),
        support::desired("silent", address(2), &[]),
    ]);
    let busy = longboat_scheduler::Metrics {
        waiting: 50.0,
        kv_usage: 0.9,
        ..longboat_scheduler::Metrics::default()
    };
    core.pool.members()[0].scraped(busy);
    for _ in 0..10 {
        let incoming = Incoming::from(body(BODY, true));
        let mut stream = open(&core);
        let (replies, _) = stream.feed(incoming);
        assert_eq!(changes(&replies[0]).get(names::DESTINATION), Some("10.0.0.1:8000"));
    }
}

fn immediate(reply: &Reply) -> &longboat_extproc::ImmediateResponse {
    let Action::Immediate(immediate) = &reply.action else { panic!("{reply:?}") };
    immediate
}

#[test]
fn bodies_beyond_the_memory_for_all_are_told_to_come_back() {
    let core = picker(1);
    let chunk = || Bytes::from(vec![b' '; 900 << 10]);
    let mut waiting = Vec::new();
    let refused = loop {
        let mut stream = Stream::open(&core);
        stream.feed(Event::RequestHeaders {
            headers: support::request_headers("POST", CHAT, &[]),
            end_of_stream: false,
        });
        let (replies, ended) = stream.feed(Event::RequestBody { body: chunk(), end_of_stream: false });
        if ended {
            break replies;
        }
        waiting.push(stream);
        assert!(waiting.len() < 5, "4 MiB hold no five bodies of 900 KiB");
    };
    let answer = immediate(&refused[0]);
    assert_eq!((answer.status, answer.headers.get("retry-after")), (503, Some("1")));
    let headers = core.bodies.held() - waiting.len() * (900 << 10);
    assert!(headers < waiting.len() * 1000, "{headers}");
    let page = metrics_page(&core);
    let held = format!("llm_d_epp_body_bytes_in_flight {}", core.bodies.held());
    assert!(page.lines().any(|line| line == held), "{page}");
    assert_eq!([core.take_full(), core.take_full()], [1, 0]);
    drop(waiting);
    assert_eq!(core.bodies.held(), 0);
    let replies = Stream::open(&core).request(CHAT, &[], BODY, None);
    assert!(matches!(replies[0].action, Action::RequestHeaders(_)), "there is room again: {replies:?}");
    drop(replies);
    assert_eq!(core.bodies.held(), 0, "what was sent on is not held");
}

#[test]
fn passthrough_takes_what_no_other_parser_knows_and_reads_nothing() {
    let config = "plugins: [{type: openai-parser}, {type: passthrough-parser}, {type: queue-scorer}]
requestHandler: {parsers: [{pluginRef: passthrough-parser}, {pluginRef: openai-parser}]}
";
    let core = support::core(config);
    support::with_endpoints(&core, 1);
    let rewrite = [("x-llm-d-model-name-rewrite", "other")];
    for path in ["/v1/messages", "/anything"] {
        let replies = Stream::open(&core).request(path, &rewrite, b"no JSON", None);
        assert_eq!(changes(&replies[0]).get(names::DESTINATION), Some("127.0.1.1:18300"));
        let Action::RequestBody { body, .. } = &replies[1].action else { panic!("{replies:?}") };
        assert_eq!(body.as_ref(), b"no JSON");
    }
    let replies = Stream::open(&core).request(CHAT, &[], b"no JSON", None);
    assert_eq!(immediate(&replies[0]).status, 400, "OpenAI's paths are still read");
    let replies = Stream::open(&picker(1)).request("/anything", &[], BODY, None);
    assert_eq!(immediate(&replies[0]).status, 400, "it is not among the defaults");
}

#[test]
fn a_request_to_sglang_names_no_model_and_its_tokens_find_their_prefix() {
    let config =
        "plugins: [{type: sglanghttp-parser}, {type: prefix-cache-scorer, parameters: {blockSizeTokens: 2}}]
requestHandler: {parsers: [{pluginRef: sglanghttp-parser}]}
";
    let core = support::core(config);
    support::with_endpoints(&core, 4);
    let body =
        br#"{"input_ids": [1, 2, 3, 4, 5, 6], "extra_key": "a", "sampling_params": {"max_new_tokens": 4}}"#;
    let rewrite = [("x-llm-d-model-name-rewrite", "other")];
    let mut went = Vec::new();
    for _ in 0..4 {
        let mut stream = Stream::open(&core);
        let replies = stream.request("/ns/name/generate", &rewrite, body, None);
        went.push(changes(&replies[0]).get(names::DESTINATION).map(ToOwned::to_owned));
        let Action::RequestBody { body: sent, .. } = &replies[1].action else { panic!("{replies:?}") };
        assert_eq!(sent.as_ref(), body);
        stream.feed(response("200", "text/event-stream"));
        stream.feed(response_body(b"data: {\"text\":\"a\",\"meta_info\":{\"finish_reason\":null,\"prompt_tokens\":6,\"completion_tokens\":1}}\n\n", false));
        stream.feed(response_body(b"data: {\"text\":\"ab\",\"meta_info\":{\"finish_reason\":{\"type\":\"stop\"},\"prompt_tokens\":6,\"completion_tokens\":2,\"cached_tokens\":4}}\n\ndata: [DONE]\n\n", true));
    }
    assert!(went[0].is_some() && went.iter().all(|one| *one == went[0]), "{went:?}");
    let page = metrics_page(&core);
    for (metric, sum) in
        [("input_tokens", "24.0"), ("output_tokens", "8.0"), ("prompt_cached_tokens", "16.0")]
    {
        let line =
            format!("inference_objective_{metric}_sum{{model_name=\"\",target_model_name=\"\"}} {sum}");
        assert!(page.lines().any(|found| found == line), "{line}\nis not in\n{page}");
    }
    for refused in [br#"{"text": "Hello"}"#.as_slice(), br#"{"input_ids": "Hello"}"#, br#"{"input_ids": []}"#]
    {
        let replies = Stream::open(&core).request("/generate", &[], refused, None);
        assert_eq!(immediate(&replies[0]).status, 400);
    }
    let replies = Stream::open(&picker(1)).request("/generate", &[], body, None);
    assert_eq!(immediate(&replies[0]).status, 400, "it is not among the defaults");
}

#[test]
fn a_response_says_which_endpoint_served_where_that_is_asked_for() {
    let config = "
plugins: [{type: queue-scorer}, {type: destination-endpoint-served-verifier}]
";
    let core = support::core(config);
    support::with_endpoints(&core, 1);
    let mut served = Metadata::default();
    served.insert(names::LB_NAMESPACE, names::DESTINATION_SERVED, "10.0.0.1:8000".into());
    let mut other = Metadata::default();
    other.insert(names::LB_NAMESPACE, "x", 1.into());
    for (metadata, expected) in [
        (Some(served), "10.0.0.1:8000"),
        (Some(other), "fail: missing destination endpoint served metadata"),
        (None, "fail: missing envoy lb metadata"),
    ] {
        let mut stream = Stream::open(&core);
        assert_eq!(stream.request(CHAT, &[], BODY, None).len(), 2);
        let mut headers = Headers::new();
        headers.push(Bytes::from_static(b":status"), Bytes::from_static(b"200"));
        let event = Event::ResponseHeaders { headers, end_of_stream: false };
        let (replies, _) = stream.feed(Incoming { event, metadata });
        let Action::ResponseHeaders(changes) = &replies[0].action else { panic!("{replies:?}") };
        assert_eq!(changes.get("x-conformance-test-served-endpoint"), Some(expected));
    }
}
