//! Fuzzing entry points for the code that reads untrusted bytes.

use std::{net::SocketAddr, sync::Arc};

use longboat_extproc::{Incoming, Outbox, Processor, ProcessorExchange};
use longboat_scheduler::{
    Metrics, Options, Scheduler,
    config::{DataLayer, EndpointPickerConfig, Parser},
    flow,
};

use crate::{
    body::{Api, Reading, media, parse},
    core::{Core, Settings},
    exchange::{Picker, UsageScan},
    pool::EndpointSpec,
    scrape::{Reply, extract},
};

/// A small limit, so that fuzz inputs can exceed it.
const MAX_BODY: usize = 4096;

/// Handles a stream of messages.
///
/// # Panics
/// If bytes of the request are still held after the stream has ended.
pub fn stream(messages: impl Iterator<Item = Incoming>) {
    let Some(core) = core() else { return };
    let mut exchange = Picker(Arc::clone(&core)).open();
    for message in messages {
        let mut out = Outbox::default();
        exchange.handle(message, &mut out);
        let ended = out.is_finished();
        drop(out.into_replies());
        if ended {
            break;
        }
    }
    drop(exchange);
    assert_eq!(core.bodies.held(), 0, "bytes of a stream that has ended are still held");
}

/// Handles the bytes of a connection.
///
/// # Panics
/// If bytes of a request are still held after the connection has ended.
pub fn connection(bytes: &[u8]) {
    let Some(core) = core() else { return };
    longboat_extproc::fuzzing::connection_of(bytes, Picker(Arc::clone(&core)));
    assert_eq!(core.bodies.held(), 0, "bytes of a connection that has ended are still held");
}

/// Creates a picker with two endpoints.
fn core() -> Option<Arc<Core>> {
    let config = EndpointPickerConfig::default();
    let scheduler = Scheduler::new(&config, Options::default()).ok()?;
    let flow = flow::Settings::from_config(&config).ok()?;
    let settings = Settings {
        flow,
        settling: std::time::Duration::ZERO,
        ignore_subset: false,
        emit_scores: true,
        stale_after: None,
        max_body: MAX_BODY,
        max_bodies: 4 * MAX_BODY,
        propagate_priority: true,
        parsers: Parser::ALL.to_vec(),
    };
    let core = Arc::new(Core::new(scheduler, settings, "pool"));
    let endpoint = |last: u8| EndpointSpec {
        namespace: "ns".to_owned(),
        name: format!("pod-{last}"),
        address: SocketAddr::from(([127, 0, 1, last], 18300)),
        labels: std::collections::BTreeMap::new(),
    };
    core.set_endpoints(vec![endpoint(1), endpoint(2)]);
    Some(core)
}

/// Parses a body as each API.
///
/// # Panics
/// If the model is not in the place that the parser reports.
pub fn body(bytes: &[u8]) {
    for path in [
        "chat/completions",
        "completions",
        "embeddings",
        "responses",
        "conversations",
        "messages",
        "inference/v1/generate",
    ] {
        let Some(api) = Api::of(path, &[Parser::OpenAi, Parser::Anthropic, Parser::VllmHttp]) else {
            continue;
        };
        let _ = media(api, bytes);
        if let Ok(parsed) = parse(api, bytes, &Reading::default()) {
            let model: Result<String, _> = serde_json::from_slice(&bytes[parsed.model_at]);
            assert_eq!(model.ok(), Some(parsed.model), "the model is somewhere else");
        }
    }
}

/// Reads a query of `/debug/decisions` and answers it.
///
/// # Panics
/// If the answer is not JSON, or a query is refused without a message.
pub fn decisions_query(query: &str) {
    use crate::decisions::{Decisions, Query};

    match Query::parse(query) {
        Ok(query) => {
            let answer = Decisions::answer([&Decisions::new(4)], &query);
            assert!(serde_json::from_str::<serde_json::Value>(&answer).is_ok(), "the answer is no JSON");
        }
        Err(sentence) => assert!(!sentence.is_empty()),
    }
}

/// Reads a tokenizer's answer.
///
/// # Panics
/// If a token does not have four bytes.
pub fn tokenizer_answer(bytes: &[u8]) {
    for prompt in crate::tokens::parse(bytes).unwrap_or_default().0 {
        assert_eq!(prompt.bytes.len() % 4, 0, "a part of a token");
    }
}

/// Reads an HTTP response that arrives in several pieces.
///
/// # Panics
/// If the page is outside the bytes that were read.
pub fn metrics_reply(answer: &[u8]) {
    let mut reply = Reply::default();
    let mut buffer = Vec::new();
    for (index, part) in answer.chunks(answer.len() / 3 + 1).enumerate() {
        buffer.extend_from_slice(part);
        match reply.examine(&mut buffer, index == 2, 1 << 16) {
            Ok(Some(page)) => return assert!(buffer.get(page).is_some(), "the page is somewhere else"),
            Ok(None) => {}
            Err(_) => return,
        }
    }
}

/// Parses a body as each gRPC API, and a response in pieces of different sizes.
///
/// # Panics
/// If the usage depends on the sizes of the pieces.
pub fn grpc(bytes: &[u8]) {
    for api in [Api::VllmGenerate, Api::VllmEmbed, Api::VertexChat, Api::VertexRaw] {
        let _ = parse(api, bytes, &Reading::default());
    }
    for api in [Api::VllmGenerate, Api::VllmEmbed] {
        let read = |size: usize| {
            let mut scan = UsageScan::of(api);
            bytes.chunks(size).for_each(|chunk| scan.push(chunk));
            scan.usage()
        };
        let whole = read(bytes.len().max(1));
        for size in [1, 2, 7] {
            assert_eq!(read(size), whole, "the usage depends on where the response is cut");
        }
    }
}

/// Reads a latency predictor's answer.
///
/// # Panics
/// If a time is below 0, or missing.
pub fn predictor_answer(bytes: &[u8]) {
    for rows in 0..3 {
        let Ok(predictions) = crate::latency::parse(bytes, rows) else { continue };
        assert_eq!(predictions.len(), rows);
        let times = predictions.iter().flat_map(|prediction| [prediction.ttft_ms, prediction.tpot_ms]);
        assert!(times.into_iter().all(|time| time >= 0.0), "a time below 0");
    }
}

/// Extracts the numbers of every known engine from a metrics page.
pub fn metrics_page(page: &[u8]) {
    let Ok(layer) = DataLayer::from_config(&EndpointPickerConfig::default()) else { return };
    for engine in layer.engines.values() {
        extract(page, engine, &mut Metrics::default());
    }
}
