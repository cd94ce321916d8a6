//! Single requests through one shared Envoy.

use std::{
    collections::BTreeSet,
    io::{Read, Write},
    sync::OnceLock,
};

use futures::StreamExt;
use serde_json::{Value, json};

use crate::{
    envoy::{self, Envoy, Port},
    http, tools,
    wait::until,
    world::{BLEND, Picker, Pool, TWO, answered, turn},
};

const CHAT: &str = "/v1/chat/completions";

/// The processes that these tests share.
struct SharedProcesses {
    pool: Pool,
    envoy: Envoy,
    pickers: Vec<Picker>,
}

/// The ports of the shared Envoy.
const ALL: usize = 0;
const FIRST_ONLY: usize = 1;
const NOBODY: usize = 2;
const TWO_OF_WHICH_ONE_IS_DEAD: usize = 3;
const WITHOUT_PICKER: usize = 4;
const HURRIED: usize = 5;

fn world() -> Option<&'static SharedProcesses> {
    static WORLD: OnceLock<Option<SharedProcesses>> = OnceLock::new();
    let world = WORLD.get_or_init(|| {
        let program = tools::tool("bin/envoy")?;
        let pool = Pool::start(3, "5ms");
        let blend = Picker::start(&pool, BLEND, &[]);
        // Nothing listens on this address.
        let dead = std::net::SocketAddr::from(([127, 0, 5, 99], envoy::free_port()));
        let half = Pool::start(1, "1ms");
        half.know(&[half.engines[0], dead]);
        // Metrics become stale only after an hour, so the picker keeps choosing the dead endpoint.
        let two = Picker::start(&half, TWO, &["--metrics-staleness-threshold=1h"]);
        let port = Port { pickers: vec![blend.address], endpoints: pool.engines.clone(), ..Port::default() };
        let subset = |of: &[String]| Port { subset: Some(of.to_vec()), ..port.clone() };
        let ports = [
            port.clone(),
            subset(&[pool.engines[0].to_string()]),
            subset(&["10.9.9.9:1".to_owned()]),
            Port {
                pickers: vec![two.address],
                endpoints: vec![half.engines[0], dead],
                retries: true,
                ..Port::default()
            },
            Port { endpoints: pool.engines.clone(), ..Port::default() },
            Port { timeout: "0.5s", ..port.clone() },
        ];
        let envoy = Envoy::start(&program, &ports);
        // Keeps the other pool's engine alive as long as the shared world.
        std::mem::forget(half);
        Some(SharedProcesses { pool, envoy, pickers: vec![blend, two] })
    });
    if world.is_none() {
        tools::tool("bin/envoy");
    }
    world.as_ref()
}

fn body(prompt: &str, tokens: u32) -> String {
    json!({"model": "m", "max_tokens": tokens, "messages": [{"role": "user", "content": prompt}]}).to_string()
}

#[test]
fn a_request_is_answered_by_an_endpoint_that_the_picker_chose() {
    let Some(world) = world() else { return };
    let _turn = turn();
    for http2 in [false, true] {
        let answer = http::post(&world.envoy.url(ALL), CHAT, body("hello", 3), http2);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.json()["usage"]["completion_tokens"], 3);
        assert_eq!(answer.headers["x-went-into-resp-headers"], "true");
    }
}

#[test]
fn a_stream_comes_event_by_event() {
    let Some(world) = world() else { return };
    let _turn = turn();
    let text = json!({"model": "m", "max_tokens": 400, "ignore_eos": true, "stream": true, "messages": [{"role": "user", "content": "hi"}]});
    let pieces = http::block(async {
        let url = format!("{}{CHAT}", world.envoy.url(ALL));
        let request = http::client(false).post(url).header("content-type", "application/json");
        let mut stream = request.body(text.to_string()).send().await.unwrap().bytes_stream();
        let mut pieces = Vec::new();
        while let Some(piece) = stream.next().await {
            pieces.push(piece.unwrap());
        }
        pieces
    });
    let whole = String::from_utf8(pieces.concat()).unwrap();
    assert!(whole.ends_with("data: [DONE]\n\n"), "{whole}");
    assert!(whole.matches("data: ").count() > 400, "{whole}");
    // The response takes two seconds. If a proxy buffered it, it would arrive in a few pieces.
    assert!(pieces.len() > 40, "{} pieces", pieces.len());
}

#[test]
fn the_picker_knows_how_a_response_ended_that_was_not_complete() {
    let Some(world) = world() else { return };
    let _turn = turn();
    let ask = |port: usize, id: &str, model: &str, stream: bool| {
        let body = json!({
            "model": model, "max_tokens": 400, "ignore_eos": true, "stream": stream,
            "messages": [{"role": "user", "content": "hi"}],
        });
        let request = http::client(false).post(format!("{}{CHAT}", world.envoy.url(port)));
        request.header("content-type", "application/json").header("x-request-id", id).body(body.to_string())
    };
    let ended = |id: &str| {
        let page = world.pickers[0].page.replace("/metrics", &format!("/debug/decisions?id={id}"));
        until("the end of the response", || {
            let answer: Value = serde_json::from_str(&http::try_get(&page)?).ok()?;
            let end = answer["decisions"][0]["response"].clone();
            end.is_object().then(|| [end["status"].clone(), end["cancelled"].clone()])
        })
    };
    http::block(async {
        // The client goes away after the first piece.
        ask(ALL, "left", "m", true).send().await.unwrap().chunk().await.unwrap();
        assert_eq!(ask(HURRIED, "late", "m", false).send().await.unwrap().status(), 504);
        assert_eq!(ask(ALL, "unknown", "nope", false).send().await.unwrap().status(), 404);
        ask(HURRIED, "torn", "m", true).send().await.unwrap().bytes().await.unwrap_err();
    });
    assert_eq!(ended("left"), [Value::Null, json!(true)]);
    assert_eq!(ended("late"), [json!(504), Value::Null]);
    assert_eq!(ended("unknown"), [json!(404), Value::Null]);
    assert_eq!(ended("torn"), [Value::Null, json!(true)]);
}

#[test]
fn a_request_without_a_body_is_answered() {
    let Some(world) = world() else { return };
    let _turn = turn();
    let models = http::try_get(&format!("{}/v1/models", world.envoy.url(ALL))).unwrap();
    assert!(models.contains("\"m\""), "{models}");
}

#[test]
fn long_bodies_arrive_as_they_were_sent() {
    let Some(world) = world() else { return };
    let _turn = turn();
    // The text has escapes and a non-ASCII character.
    let text = body(&"a \"quoted\" wörd\n".repeat(1 << 12), 1);
    let direct = http::post(&world.envoy.url(WITHOUT_PICKER), CHAT, text.clone(), false).json();
    assert!(direct["usage"]["prompt_tokens"].as_u64() > Some(10_000), "{direct:?}");
    for http2 in [false, true] {
        let answer = http::post(&world.envoy.url(ALL), CHAT, text.clone(), http2);
        assert_eq!(answer.json()["usage"]["prompt_tokens"], direct["usage"]["prompt_tokens"]);
    }
    // For an unknown model, an engine reads the whole body and computes nothing. It answers 404, and would answer 400 to a
    // damaged body.
    for (repeats, http2) in [(1 << 16, true), (1 << 20, false)] {
        let text = body(&"a \"quoted\" wörd\n".repeat(repeats), 1).replace("\"m\"", "\"nobody\"");
        assert!(text.len() > repeats << 4);
        assert_eq!(http::post(&world.envoy.url(ALL), CHAT, text, http2).status, 404);
    }
}

#[test]
fn trailers_end_a_request() {
    let Some(world) = world() else { return };
    let _turn = turn();
    let address = world.envoy.url(ALL);
    let mut stream = std::net::TcpStream::connect(address.strip_prefix("http://").unwrap()).unwrap();
    let text = body("hello", 2);
    let request = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\ntrailer: x-end\r\n\
         connection: close\r\n\r\n{:x}\r\n{text}\r\n0\r\nx-end: yes\r\n\r\n",
        text.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("\"completion_tokens\":2"), "{answer}");
}

#[test]
fn what_cannot_be_scheduled_is_refused_with_a_reason() {
    let Some(world) = world() else { return };
    let _turn = turn();
    let refused = |port, path, text: &str, status, reason: &str| {
        let answer = http::post(&world.envoy.url(port), path, text.to_owned(), false);
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.body.starts_with("inference error: ") && answer.body.contains(reason), "{answer:?}");
    };
    refused(ALL, CHAT, "{\"model\":", 400, "BadRequest - error unmarshaling request bodyMap");
    refused(
        ALL,
        CHAT,
        "{\"messages\": [{\"role\":\"user\",\"content\":\"x\"}]}",
        400,
        "model not found in request body",
    );
    refused(
        ALL,
        "/v2/whatever",
        &body("x", 1),
        400,
        "no parser registered matching path suffix for: /v2/whatever",
    );
    refused(NOBODY, CHAT, &body("x", 1), 503, "ServiceUnavailable - ");
}

#[test]
fn a_gateways_subset_is_kept_to() {
    let Some(world) = world() else { return };
    let _turn = turn();
    let first = world.pool.engines[0].to_string();
    let before = answered(&first);
    for number in 0..12 {
        let answer =
            http::post(&world.envoy.url(FIRST_ONLY), CHAT, body(&format!("{number} hello"), 1), false);
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    assert!((answered(&first) - before - 12.0).abs() < 0.5);
}

#[test]
fn of_a_list_the_next_endpoint_is_tried_where_the_first_is_dead() {
    let Some(world) = world() else { return };
    let _turn = turn();
    let answers: BTreeSet<u16> = (0..20)
        .map(|number| {
            let text = body(&format!("{number} hello"), 1);
            http::post(&world.envoy.url(TWO_OF_WHICH_ONE_IS_DEAD), CHAT, text, false).status
        })
        .collect();
    assert_eq!(answers, BTreeSet::from([200]));
}
