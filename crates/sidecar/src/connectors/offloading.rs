//! Connector `offloading`: the prefiller keeps the KV cache under a name, and the decoder pulls the cache by this name.

use serde_json::json;

use super::{
    p2p,
    plan::{Part, Plan, SplitRequest, TRANSFER},
};
use crate::{api, object::Object};

/// Divides a request.
pub(crate) fn plan(ask: SplitRequest<'_>, ports: p2p::Ports) -> Plan<'_> {
    Plan::AtOnce {
        prefill: Part::from(&prefill(ask, ports)),
        decode: Part::from(&decode(ask, ports)),
        failed: None,
    }
}

fn prefill(ask: SplitRequest<'_>, ports: p2p::Ports) -> Object<'_> {
    let mut transfer = json!({ "remote_decoder": { "kv_request_id": ask.id.to_string() } });
    if let Some(peer) = ports.pull(ask.source, ask.prefiller) {
        transfer[p2p::SOURCE] = json!(peer);
    }
    let mut body = ask.request.clone();
    body.set_value(TRANSFER, &transfer);
    ask.api.at_most_one_token(&mut body);
    api::no_stream(&mut body);
    body
}

fn decode(ask: SplitRequest<'_>, ports: p2p::Ports) -> Object<'_> {
    let peer = ports.peer(ask.prefiller, ask.id);
    let mut body = ask.request.clone();
    body.set_value(TRANSFER, &json!({ "remote_prefiller": peer }));
    body
}
