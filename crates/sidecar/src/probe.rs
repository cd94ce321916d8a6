//! The readers of outside bytes, for fuzzing.

use bytes::Bytes;

use crate::{
    api::Api,
    connectors::{Ask, Connector, Nixl, Plan},
    object::Object,
    target::{self, Target},
    usage::{self, Events},
};

/// A header value names endpoints, or none.
///
/// # Panics
/// When an endpoint is more than a host and a port.
pub fn header(value: &str) {
    for entry in target::entries(value) {
        let _ = target::named_host(entry);
        if let Some(target) = Target::parse(entry) {
            let authority = target.authority();
            assert!(authority.port_u16().is_some() && !target.host().is_empty(), "{authority}");
            assert!(!authority.as_str().contains(['/', '?', '#', '@', '\\', ' ']), "{authority}");
        }
    }
}

/// A body is what a client, a prefiller or an engine may send.
///
/// # Panics
/// When a leg's body is no object, or when a stream depends on how it is cut.
pub fn body(bytes: &[u8]) {
    if let Ok(request) = Object::parse(bytes) {
        for connector in [Connector::Nixl(Nixl)] {
            for api in [Api::Completions, Api::Responses, Api::Generate] {
                let ask = Ask { api, request: &request };
                let parts = match connector.plan(ask) {
                    Plan::InTurn { prefill, decode } => {
                        let decode = decode(bytes).map(|decode| decode.part);
                        [Some(prefill), decode.ok()]
                    }
                };
                for part in parts.into_iter().flatten() {
                    assert!(
                        Object::parse(&part.body).is_ok(),
                        "an engine is asked with something else than an object"
                    );
                }
            }
        }
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
