//! The decisions that are kept, and the answers about them.

use std::sync::Arc;

use bytes::Bytes;
use longboat_extproc::{Action, Event, Headers, Reply};
use longboat_scheduler::Metrics;
use serde_json::{Value, json};

use super::support::{self, Stream};
use crate::{
    core::Core,
    decisions::{Decisions, Query},
};

const CHAT: &str = "/v1/chat/completions";
const BODY: &[u8] = br#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#;
const CONFIG: &str = "
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: decode-filter}
- {type: queue-scorer}
- {type: kv-cache-utilization-scorer}
- {type: max-score-picker}
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: decode-filter}
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: kv-cache-utilization-scorer}
  - {pluginRef: max-score-picker}
";

/// A picker with two decode endpoints, of which the first is busy, and one that only prefills.
fn picker(capacity: usize) -> Arc<Core> {
    let mut core = Arc::into_inner(support::core(CONFIG)).unwrap();
    core.decisions = Decisions::new(capacity);
    let endpoint = |name: &str, last: u8, role: &str| {
        let address = ([127, 0, 1, last], 18300).into();
        support::desired(name, address, &[("llm-d.ai/role", role)])
    };
    core.set_endpoints(vec![
        endpoint("busy", 1, "decode"),
        endpoint("idle", 2, "decode"),
        endpoint("prefill", 3, "prefill"),
    ]);
    for member in core.pool.members().iter() {
        let busy = member.endpoint.name == "busy";
        let (waiting, kv_usage) = if busy { (4.0, 0.5) } else { (0.0, 0.0) };
        member.scraped(Metrics { waiting, kv_usage, ..Metrics::default() });
    }
    Arc::new(core)
}

/// Sends a request with this id through, and returns the id in the response's headers.
fn ask(core: &Arc<Core>, id: &str) -> Option<String> {
    let mut stream = Stream::open(core);
    stream.request(CHAT, &[("x-request-id", id)], BODY, None);
    let mut headers = Headers::new();
    headers.push(":status", "200");
    headers.push("x-request-id", "the-engines-own");
    let (replies, _) = stream.feed(Event::ResponseHeaders { headers, end_of_stream: false });
    let [Reply { action: Action::ResponseHeaders(changes), .. }] = replies.as_slice() else {
        panic!("not headers: {replies:?}")
    };
    let named = changes.get("x-request-id").map(ToOwned::to_owned);
    let usage =
        br#"{"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":5}}}"#;
    stream.feed(Event::ResponseBody { body: Bytes::from_static(usage), end_of_stream: true });
    named
}

fn answer(core: &Core, query: &str) -> Value {
    serde_json::from_str(&Decisions::answer([&core.decisions], &Query::parse(query).unwrap())).unwrap()
}

#[test]
fn a_decision_says_who_was_dropped_what_each_scorer_said_and_how_it_ended() {
    let core = picker(8);
    assert_eq!(ask(&core, "r 1").as_deref(), Some("r 1"));
    let mut answer = answer(&core, "id=r%201");
    let record = &mut answer["decisions"][0];
    for (field, value) in [("time", json!("2026-01-01T00:00:00Z")), ("micros", json!(1))] {
        assert!(record[field].is_string() || record[field].is_number(), "{field}: {record}");
        record[field] = value;
    }
    for field in ["millis", "firstByteMillis"] {
        assert!(record["response"][field].is_u64(), "{field}: {record}");
        record["response"][field] = json!(0);
    }
    let endpoint = |name: &str, address: &str, picked: bool, total: f64, scores: [f64; 2]| {
        let (waiting, kv_usage) = if name == "busy" { (4.0, 0.5) } else { (0.0, 0.0) };
        json!({
            "endpoint": format!("default/{name}"), "address": address, "picked": picked, "total": total,
            "scores": scores, "waiting": waiting, "running": 0.0, "kvUsage": kv_usage,
        })
    };
    assert_eq!(
        answer,
        json!({"capacity": 8, "decisions": [{
            "id": "r 1", "time": "2026-01-01T00:00:00Z", "model": "m", "micros": 1, "candidates": 3,
            "destination": ["127.0.1.2:18300"],
            "profiles": [{
                "name": "default", "primary": true, "scored": 2,
                "filters": [{"plugin": "decode-filter", "left": 2, "dropped": ["default/prefill"]}],
                "scorers": [
                    {"plugin": "queue-scorer", "weight": 2.0},
                    {"plugin": "kv-cache-utilization-scorer", "weight": 1.0},
                ],
                "endpoints": [
                    endpoint("idle", "127.0.1.2:18300", true, 3.0, [1.0, 1.0]),
                    endpoint("busy", "127.0.1.1:18300", false, 0.5, [0.0, 0.5]),
                ],
            }],
            "response": {
                "firstByteMillis": 0, "millis": 0, "promptTokens": 7, "cachedTokens": 5, "completionTokens": 3,
            },
        }]})
    );
}

#[test]
fn a_response_that_the_picker_saw_no_end_of_was_cancelled_and_one_that_is_not_200_has_its_status() {
    let core = picker(8);
    let headers = |status: &'static str| {
        let mut headers = Headers::new();
        headers.push(":status", status);
        headers
    };
    let end = |path: &str, status: Option<&'static str>, end_of_stream: bool, begun: bool| {
        let mut stream = Stream::open(&core);
        stream.request(path, &[("x-request-id", "r")], BODY, None);
        if let Some(status) = status {
            stream.feed(Event::ResponseHeaders { headers: headers(status), end_of_stream });
        }
        if begun {
            stream
                .feed(Event::ResponseBody { body: Bytes::from_static(b"data: x\n\n"), end_of_stream: false });
        }
        drop(stream);
        let mut end = answer(&core, "id=r&limit=1")["decisions"][0]["response"].take();
        for field in ["millis", "firstByteMillis"] {
            end.as_object_mut().map(|end| end.remove(field));
        }
        end
    };
    assert_eq!(end(CHAT, None, false, false), json!({"cancelled": true}), "no answer");
    assert_eq!(end(CHAT, Some("200"), false, true), json!({"cancelled": true}), "within a stream");
    assert_eq!(end(CHAT, Some("404"), true, false), json!({"status": 404}));
    assert_eq!(end(CHAT, Some("500"), false, true), json!({"status": 500, "cancelled": true}));
    assert_eq!(end(CHAT, Some("200"), true, false), json!({}));
    assert_eq!(end("/v1/messages/count_tokens", None, false, false), Value::Null, "the picker does not look");
}

#[test]
fn only_the_newest_are_kept_and_they_come_first() {
    let core = picker(2);
    for id in ["a", "b", "c"] {
        ask(&core, id);
    }
    let ids = |query| {
        let answer = answer(&core, query);
        let ids = answer["decisions"].as_array().unwrap().iter().map(|record| record["id"].clone());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(ids(""), ["c", "b"]);
    assert_eq!(ids("limit=1"), ["c"]);
    assert_eq!(ids("id=a"), Vec::<Value>::new());
}

#[test]
fn the_decisions_of_several_pickers_are_one_list() {
    let (first, second) = (picker(2), picker(3));
    for (core, id) in [(&first, "a"), (&second, "b"), (&first, "c")] {
        ask(core, id);
    }
    let answer = |query: &str| -> Value {
        let query = Query::parse(query).unwrap();
        let text = Decisions::answer([&*first, &second].map(|core| &core.decisions), &query);
        let answer: Value = serde_json::from_str(&text).unwrap();
        let ids = answer["decisions"].as_array().unwrap().iter().map(|record| record["id"].clone());
        json!([answer["capacity"], ids.collect::<Value>()])
    };
    assert_eq!(answer(""), json!([5, ["c", "b", "a"]]));
    assert_eq!(answer("limit=2"), json!([5, ["c", "b"]]));
    assert_eq!(answer("id=b"), json!([5, ["b"]]));
}

#[test]
fn where_none_are_kept_the_response_keeps_the_engines_id() {
    let core = picker(0);
    assert_eq!(ask(&core, "r").as_deref(), Some("the-engines-own"));
    assert_eq!(answer(&core, ""), json!({"capacity": 0, "decisions": []}));
}

#[test]
fn a_pick_that_fails_is_kept_with_its_cause() {
    let core = picker(2);
    core.set_endpoints(Vec::new());
    Stream::open(&core).request(CHAT, &[("x-request-id", "r")], BODY, None);
    let record = &answer(&core, "id=r")["decisions"][0];
    assert_eq!((&record["candidates"], &record["profiles"]), (&json!(0), &json!([])));
    assert!(!record["error"].as_str().unwrap().is_empty(), "{record}");
}

#[test]
fn an_id_of_any_length_is_found_by_its_start_and_a_wrong_query_is_refused() {
    let core = picker(1);
    let long = "é".repeat(1000);
    ask(&core, &long);
    let encoded = "%C3%A9".repeat(1000);
    let found = answer(&core, &format!("id={encoded}"));
    assert_eq!(found["decisions"][0]["id"].as_str().map(str::len), Some(256));
    for wrong in ["limit=x", "id=%ff", "other=1"] {
        assert!(Query::parse(wrong).is_err(), "{wrong}");
    }
}
