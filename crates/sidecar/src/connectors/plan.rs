//! The requests into which connectors divide a request.

use std::{borrow::Cow, time::Duration};

use serde_json::value::RawValue;
use uuid::Uuid;

use crate::{
    api::{self, Api, SAMPLING},
    object::Object,
    pieces::Pieces,
    target::Target,
};

/// The field that tells engines about the transfer of a KV cache.
pub(crate) const TRANSFER: &str = "kv_transfer_params";

/// A request that is divided between two engines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SplitRequest<'a> {
    pub(crate) api: Api,
    pub(crate) request: &'a Object<'a>,
    pub(crate) prefiller: &'a Target,
    /// The unique id of this request.
    pub(crate) id: Uuid,
    /// Another engine that has cached a part of the prompt.
    pub(crate) source: Option<&'a Target>,
}

/// The request to one engine.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) body: Pieces,
    /// The rank that must take the request, if the engine's ranks share a port.
    pub(crate) rank: Option<u32>,
}

/// The request to the decoder after the prefiller has answered.
#[derive(Debug, Clone)]
pub(crate) struct Decode {
    pub(crate) part: Part,
    /// The prompt tokens that the prefiller had cached. `None` keeps the decoder's own count.
    pub(crate) cached_tokens: Option<u64>,
}

/// Builds the decoder's part from the body of the prefiller's response.
pub(crate) type DecodeBuilder<'a> = Box<dyn FnOnce(&[u8]) -> Result<Decode, serde_json::Error> + Send + 'a>;

/// Called when a prefill has failed.
pub(crate) type FailureCallback = Box<dyn FnOnce() + Send>;

/// The requests to the engines, and their order.
pub(crate) enum Plan<'a> {
    /// The decoder's request is sent after the prefiller has answered.
    InTurn { prefill: Part, decode: DecodeBuilder<'a> },
    /// Both requests are sent at the same time. The prefiller's response is discarded.
    AtOnce { prefill: Part, decode: Part, failed: Option<FailureCallback> },
    /// Both requests are sent at the same time. The decoder's response is held until the prefiller succeeds, for at most
    /// `patience`.
    Held { prefill: Part, decode: Part, patience: Duration },
}

// === impl Part ===

impl From<&Object<'_>> for Part {
    fn from(body: &Object<'_>) -> Self {
        Self { body: body.to_pieces(), rank: None }
    }
}

/// Builds the decoder's request: the client's request with the location of the cache.
pub(crate) fn decode_body<'a>(api: Api, request: &Object<'a>, transfer: &'a RawValue) -> Object<'a> {
    let mut body = request.clone();
    body.set(TRANSFER, Cow::Borrowed(transfer));
    if api == Api::Generate && api::sampling(request).is_none() {
        // A value that is not an object contains no limits.
        body.remove(SAMPLING);
    }
    body
}
