//! Connector `offloading`: the prefiller keeps the KV cache under a name, and the decoder pulls the cache by this name.

use serde_json::json;

use super::{
    p2p,
    plan::{Part, Plan, SplitRequest, TRANSFER},
};
use crate::{api, object::Object};

/// The connector.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offloading {
    pub(crate) ports: p2p::Ports,
}

// === impl Offloading ===

impl Offloading {
    pub(crate) fn plan(self, ask: SplitRequest<'_>) -> Plan<'_> {
        Plan::AtOnce {
            prefill: Part::from(&self.prefill(ask)),
            decode: Part::from(&self.decode(ask)),
            failed: None,
        }
    }

    fn prefill(self, ask: SplitRequest<'_>) -> Object<'_> {
        let mut transfer = json!({ "remote_decoder": { "kv_request_id": ask.id.to_string() } });
        if let Some(peer) = self.ports.pull(ask.source, ask.prefiller) {
            transfer[p2p::SOURCE] = json!(peer);
        }
        let mut body = ask.request.clone();
        body.set_value(TRANSFER, &transfer);
        ask.api.at_most_one_token(&mut body);
        api::no_stream(&mut body);
        body
    }

    fn decode(self, ask: SplitRequest<'_>) -> Object<'_> {
        let peer = self.ports.peer(ask.prefiller, ask.id);
        let mut body = ask.request.clone();
        body.set_value(TRANSFER, &json!({ "remote_prefiller": peer }));
        body
    }
}
