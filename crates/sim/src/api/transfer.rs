//! What answers say about a KV cache that moves between two engines (contract 04 §11, P/D).

use axum::{
    Json,
    http::{HeaderName, HeaderValue},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use super::request::{Part, Sampling};
use crate::engine::Engine;

/// Tells whose cache an answer was decoded from, which nothing else in it shows.
const SOURCE: HeaderName = HeaderName::from_static("x-simulated-kv-source");

/// A whole answer. That of a prefill says where the cache is.
pub(crate) fn told(engine: &Engine, sampling: &Sampling, mut body: Value) -> Response {
    if sampling.part() == Part::Prefill {
        let prompt = body.pointer("/usage/prompt_tokens").and_then(Value::as_u64).unwrap_or_default();
        let blocks = prompt.div_ceil(engine.args.block_size as u64);
        let (host, port) = engine.args.address();
        body["kv_transfer_params"] = json!({
            "do_remote_prefill": true,
            "do_remote_decode": false,
            "remote_engine_id": format!("{host}:{port}"),
            "remote_block_ids": [(0..blocks).collect::<Vec<_>>()],
            "remote_host": host.to_string(),
            "remote_port": port,
        });
    }
    marked(sampling, Json(body).into_response())
}

/// An answer that says whose cache it used.
pub(crate) fn marked(sampling: &Sampling, mut response: Response) -> Response {
    if let Some(host) = sampling.cache_host().and_then(|host| HeaderValue::from_str(host).ok()) {
        response.headers_mut().insert(SOURCE, host);
    }
    response
}
