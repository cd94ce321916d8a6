//! Requests that wait for room in the pool, or are dropped.

use longboat_extproc::{Action, Reply, names};

use super::{
    requests::{BODY, CHAT, body, in_flight, open, status},
    support::{self, Stream},
};
use crate::monitoring::metrics_page;

/// One request per endpoint at a time. The next one waits.
const ONE_AT_A_TIME: &str = "
featureGates: [flowControl]
plugins: [{type: queue-scorer}, {type: concurrency-detector, parameters: {maxConcurrency: 1}}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer}]}]
flowControl: {defaultRequestTTL: 20ms, maxRequests: 2, saturationDetector: {pluginRef: concurrency-detector}}
";

#[test]
fn a_request_waits_until_another_is_done() {
    let core = support::core(&ONE_AT_A_TIME.replace("20ms", "60s"));
    support::with_endpoints(&core, 1);
    let mut first = open(&core);
    assert_eq!(first.feed(body(BODY, true)).0.len(), 2);
    let mut second = open(&core);
    assert_eq!(second.feed(body(BODY, true)).0, []);
    core.admission.turn(&core);
    assert_eq!(in_flight(&core), 1, "no more than the detector allows");
    drop(first);
    assert_eq!(second.wait().len(), 2);
    assert_eq!(in_flight(&core), 1);
}

#[test]
fn who_waits_too_long_or_finds_no_room_is_told_why() {
    let core = support::core(ONE_AT_A_TIME);
    support::with_endpoints(&core, 1);
    let reason = |replies: &[Reply]| match replies {
        [Reply { action: Action::Immediate(answer), .. }] => {
            (answer.status, answer.headers.get(names::DROPPED_REASON).map(str::to_owned))
        }
        other => panic!("not refused: {other:?}"),
    };
    let expected = |status, reason: &str| (status, Some(reason.to_owned()));
    let mut streams: Vec<_> = (0..3).map(|_| open(&core)).collect();
    for stream in &mut streams {
        stream.feed(body(BODY, true));
    }
    let refused = open(&core).feed(body(BODY, true)).0;
    assert_eq!(reason(&refused), expected(429, "rejected-saturated"));
    // A client that leaves makes room.
    streams.pop();
    let mut third = open(&core);
    assert_eq!(third.feed(body(BODY, true)).0, []);
    assert_eq!(reason(&third.wait()), expected(429, "rejected-ttl-expired"));
    core.set_endpoints(Vec::new());
    let mut alone = open(&core);
    assert_eq!(alone.feed(body(BODY, true)).0, []);
    assert_eq!(reason(&alone.wait()), expected(503, "rejected-no-endpoints"));
    let mut last = open(&core);
    assert_eq!(last.feed(body(BODY, true)).0, []);
    core.admission.close();
    assert_eq!(reason(&last.wait()), expected(503, "rejected-shutting-down"));
}

#[test]
fn an_empty_pool_has_its_own_time_to_live() {
    let config = ONE_AT_A_TIME.replace("20ms", "0s, noEndpointRequestTTL: 20ms");
    let core = support::core(&config);
    let mut alone = open(&core);
    assert_eq!(alone.feed(body(BODY, true)).0, []);
    assert_eq!(status(&alone.wait()), 503);
}

#[test]
fn the_priority_of_a_request_is_written_into_its_body_if_the_configuration_says_so() {
    let config = |handler: &str| {
        support::core(&format!(
            "apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\nplugins: [{{type: queue-scorer}}]\nrequestHandler: {handler}\n"
        ))
    };
    let sent = |handler: &str, body: &[u8]| {
        let core = config(handler);
        support::with_endpoints(&core, 1);
        core.admission.set_objectives([("batch".to_owned(), -3)].into());
        let headers = [("x-gateway-inference-objective", "batch"), ("x-gateway-model-name-rewrite", "other")];
        let replies = Stream::open(&core).request("/v1/completions", &headers, body, None);
        let length = replies.iter().find_map(|reply| match &reply.action {
            Action::RequestHeaders(changes) => changes.get("content-length").map(str::to_owned),
            _ => None,
        });
        let body = replies.iter().find_map(|reply| match &reply.action {
            Action::RequestBody { body, .. } => Some(String::from_utf8(body.to_vec()).unwrap()),
            _ => None,
        });
        let body = body.unwrap();
        assert!(length.is_none_or(|length| length == body.len().to_string()), "{replies:?}");
        body
    };
    let on = "{propagatePriority: true}";
    let plain = br#" {"prompt":"p", "model": "m"}"#;
    assert_eq!(sent(on, plain), r#" {"priority":-3,"prompt":"p", "model": "other"}"#);
    assert_eq!(sent("{}", plain), r#" {"prompt":"p", "model": "other"}"#, "it is off by default");
    let own = br#"{"model":"m","priority" : 7.5,"prompt":"p","x":{"priority":1}}"#;
    assert_eq!(sent(on, own), r#"{"model":"other","priority" : -3,"prompt":"p","x":{"priority":1}}"#);
    let first = br#"{"priority":null,"model":"m","prompt":"p"}"#;
    assert_eq!(sent(on, first), r#"{"priority":-3,"model":"other","prompt":"p"}"#);
}

#[test]
fn without_the_gate_only_negative_priorities_are_dropped_from_a_full_pool() {
    let core = support::core(&ONE_AT_A_TIME.replace("[flowControl]", "[]"));
    support::with_endpoints(&core, 1);
    core.admission.set_objectives([("batch".to_owned(), -1)].into());
    let headers = [("x-gateway-inference-objective", "batch")];
    let mut first = Stream::open(&core);
    assert_eq!(first.request(CHAT, &headers, BODY, None).len(), 2);
    assert_eq!(status(&Stream::open(&core).request(CHAT, &headers, BODY, None)), 429);
    assert_eq!(Stream::open(&core).request(CHAT, &[], BODY, None).len(), 2);
}

#[test]
fn requests_of_one_agent_are_one_flow_unless_they_say_otherwise() {
    let agents = "
plugins: [{type: queue-scorer}, {type: agent-identity}]
";
    let core = support::core(agents);
    support::with_endpoints(&core, 1);
    let agent = ("x-claude-code-session-id", "s1");
    for headers in [&[agent][..], &[agent, ("x-llm-d-inference-fairness-id", "team")], &[]] {
        assert_eq!(Stream::open(&core).request(CHAT, headers, BODY, None).len(), 2);
    }
    let page = metrics_page(&core);
    for flow in ["s1", "team", "default-flow"] {
        let series = format!("target_model_name=\"m\",fairness_id=\"{flow}\",priority=\"0\"}} 1");
        assert!(page.contains(&series), "{series}\n{page}");
    }
}
