//! Fuzzing entry points for the code that reads untrusted bytes.

use bytes::Bytes;
use uuid::Uuid;

use crate::{
    api::Api,
    chunks::Chunks,
    connectors::{
        Nixl, Part, Plan, SplitRequest, encoder, mooncake, offloading, p2p, sglang, shared_storage,
    },
    object::Object,
    target::{self, Target},
    usage::{self, Events},
};

/// Parses a header value with endpoints.
///
/// # Panics
/// If an endpoint is more than a host and a port.
pub fn header(value: &str) {
    for entry in target::entries(&[value]) {
        let _ = target::named_host(entry);
        if let Some(target) = Target::parse(entry) {
            let authority = target.authority();
            assert!(authority.port_u16().is_some() && !target.host().is_empty(), "{authority}");
            assert!(!authority.as_str().contains(['/', '?', '#', '@', '\\', ' ']), "{authority}");
        }
    }
}

/// Handles a body as that of a client, of a prefiller and of an engine.
///
/// # Panics
/// If the body of an engine's request is not an object, or if the result of a stream depends on its pieces.
pub fn body(bytes: &[u8]) {
    parts(bytes);
    if let Ok(request) = Object::parse(bytes) {
        for item in encoder::items(&request) {
            let body = encoder::body(&request, item);
            assert!(Object::parse(&body).is_ok(), "an encoder is asked with something else than an object");
        }
    }
    if let Some(mut chunks) = Chunks::of(&Bytes::copy_from_slice(bytes), 2, None) {
        for _ in 0..3 {
            let Some(body) = chunks.next() else { break };
            assert!(Object::parse(&body).is_ok(), "a decoder is asked with something else than an object");
            let _ = chunks.take(bytes);
            let _ = (chunks.event(), chunks.usage_event());
        }
    }
    if let Ok(answer) = Object::parse(bytes) {
        let _ = shared_storage::verdict(&answer);
    }
    if let Some(answer) = usage::rewritten(bytes, 4) {
        assert!(Object::parse(&answer).is_ok(), "an answer became something else than an object");
    }
    let stream = |size: usize| {
        let mut events = Events::new(4);
        let mut out = Vec::new();
        for piece in bytes.chunks(size.max(1)) {
            out.extend_from_slice(&events.push(&Bytes::copy_from_slice(piece)));
        }
        out.extend_from_slice(&events.finish());
        out
    };
    assert_eq!(stream(bytes.len()), stream(7), "the stream depends on how it is cut");
}

/// Checks that each connector sends objects to engines, for any body of a client.
fn parts(bytes: &[u8]) {
    let (Ok(request), Some(prefiller)) = (Object::parse(bytes), Target::parse("10.0.0.1:8000")) else {
        return;
    };
    let ports = p2p::Ports { base: 7777, first_listener: 8000, ranks: 2 };
    let engine = mooncake::engines(bytes).ok().and_then(|engines| engines.into_iter().next());
    for api in [Api::Completions, Api::Responses, Api::Generate] {
        let ask =
            SplitRequest { api, request: &request, prefiller: &prefiller, id: Uuid::nil(), source: None };
        let mut asked = Vec::new();
        for plan in [
            Nixl { ports: Some(ports), moriio: None }.read(ask),
            shared_storage::plan(ask),
            sglang::plan(ask, 8998),
            offloading::plan(ask, ports),
        ] {
            match plan {
                Plan::InTurn { prefill, decode } => {
                    asked.push(prefill);
                    asked.extend(decode(bytes).map(|decode| decode.part));
                }
                Plan::AtOnce { prefill, decode, .. } | Plan::Held { prefill, decode, .. } => {
                    asked.extend([prefill, decode]);
                }
            }
        }
        if let Some(engine) = &engine {
            asked.extend(<[Part; 2]>::from(mooncake::parts(ask, "http://10.0.0.1:8998", engine)));
        }
        for part in asked {
            assert!(
                Object::parse(&part.body.whole()).is_ok(),
                "an engine is asked with something else than an object"
            );
        }
    }
}
