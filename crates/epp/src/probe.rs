//! The readers of outside bytes, for fuzzing.

use std::{net::SocketAddr, sync::Arc};

use longboat_extproc::{Incoming, Outbox, Processor, ProcessorExchange};
use longboat_scheduler::{
    Metrics, Options, Scheduler,
    config::{DataLayer, EndpointPickerConfig, Parser},
    flow,
};

use crate::{
    body::{Api, media, parse},
    core::{Core, Settings},
    exchange::{Picker, UsageScan},
    pool::Desired,
    scrape::{Reply, extract},
};

/// Small, so that inputs reach it.
const MAX_BODY: usize = 4096;

/// A stream of messages is answered, and nothing of it stays.
///
/// # Panics
/// When something of the request is still held after the stream has ended.
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

/// The bytes of a connection are answered, and nothing of it stays.
///
/// # Panics
/// When something of a request is still held after the connection has ended.
pub fn connection(bytes: &[u8]) {
    let Some(core) = core() else { return };
    longboat_extproc::probe::connection_of(bytes, Picker(Arc::clone(&core)));
    assert_eq!(core.bodies.held(), 0, "bytes of a connection that has ended are still held");
}

/// A picker of two endpoints.
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
        parsers: vec![
            Parser::OpenAi,
            Parser::Anthropic,
            Parser::VllmHttp,
            Parser::VllmGrpc,
            Parser::VertexAi,
            Parser::Passthrough,
        ],
    };
    let core = Arc::new(Core::new(scheduler, settings, "pool"));
    let endpoint = |last: u8| Desired {
        namespace: "ns".to_owned(),
        name: format!("pod-{last}"),
        address: SocketAddr::from(([127, 0, 1, last], 18300)),
        labels: std::collections::BTreeMap::new(),
    };
    core.set_endpoints(vec![endpoint(1), endpoint(2)]);
    Some(core)
}

/// A body is read by every API, or refused.
///
/// # Panics
/// When the model is not where it is said to be.
pub fn body(bytes: &[u8]) {
    for path in [
        "chat/completions",
        "completions",
        "embeddings",
        "responses",
        "conversations",
        "messages",
        "generate",
    ] {
        let path = if path == "generate" { "inference/v1/generate" } else { path };
        let Some(api) = Api::of(path, &[Parser::OpenAi, Parser::Anthropic, Parser::VllmHttp]) else {
            continue;
        };
        let _ = media(api, bytes);
        if let Ok(parsed) = parse(api, bytes, usize::MAX) {
            let model: Result<String, _> = serde_json::from_slice(&bytes[parsed.model_at]);
            assert_eq!(model.ok(), Some(parsed.model), "the model is somewhere else");
        }
    }
}

/// What `/debug/decisions` is asked for is read and answered with JSON, or refused with a sentence.
///
/// # Panics
/// When it is neither.
pub fn decisions_query(query: &str) {
    use crate::decisions::{Decisions, Query};

    match Query::parse(query) {
        Ok(query) => {
            let answer = Decisions::new(4).answer(&query);
            assert!(serde_json::from_str::<serde_json::Value>(&answer).is_ok(), "the answer is no JSON");
        }
        Err(sentence) => assert!(!sentence.is_empty()),
    }
}

/// A tokenizer's answer is whole tokens, or none.
///
/// # Panics
/// When a token is not four bytes.
pub fn tokenizer_answer(bytes: &[u8]) {
    for prompt in crate::tokens::parse(bytes).unwrap_or_default().0 {
        assert_eq!(prompt.bytes.len() % 4, 0, "a part of a token");
    }
}

/// What a server answers to a request for its page is a page, or none, wherever it is cut.
///
/// # Panics
/// When the page is not in what was read.
pub fn metrics_reply(answer: &[u8]) {
    let mut reply = Reply::default();
    let mut buffer = Vec::new();
    for (index, part) in answer.chunks(answer.len() / 3 + 1).enumerate() {
        buffer.extend_from_slice(part);
        match reply.look(&mut buffer, index == 2, 1 << 16) {
            Ok(Some(page)) => return assert!(buffer.get(page).is_some(), "the page is somewhere else"),
            Ok(None) => {}
            Err(_) => return,
        }
    }
}

/// A body over gRPC is read by every API that is spoken over it, or refused. A response gives the same usage however it is cut.
///
/// # Panics
/// When the usage depends on where the response is cut.
pub fn grpc(bytes: &[u8]) {
    for api in [Api::VllmGenerate, Api::VllmEmbed, Api::VertexChat, Api::VertexRaw] {
        let _ = parse(api, bytes, usize::MAX);
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

/// A latency predictor's answer is times from 0 on, as many as were asked for, or none.
///
/// # Panics
/// When a time is below 0, or missing.
pub fn predictor_answer(bytes: &[u8]) {
    for rows in 0..3 {
        let Ok(predictions) = crate::latency::parse(bytes, rows) else { continue };
        assert_eq!(predictions.len(), rows);
        let times = predictions.iter().flat_map(|prediction| [prediction.ttft_ms, prediction.tpot_ms]);
        assert!(times.into_iter().all(|time| time >= 0.0), "a time below 0");
    }
}

/// A metrics page gives numbers, for every engine that is known.
pub fn metrics_page(page: &[u8]) {
    let Ok(layer) = DataLayer::from_config(&EndpointPickerConfig::default()) else { return };
    for engine in layer.engines.values() {
        extract(page, engine, &mut Metrics::default());
    }
}
