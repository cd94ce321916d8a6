//! Connectors: how the KV cache of a prefill reaches the decoder. Each connector divides a request into the parts for two
//! engines.
//!
//! A connector only builds the requests and chooses their order. [`crate::flow`] sends them. It knows the orders, but not the
//! connectors.

pub(crate) mod encoder;
pub(crate) mod mooncake;
pub(crate) mod moriio;
pub(crate) mod nixl;
pub(crate) mod offloading;
pub(crate) mod p2p;
pub(crate) mod sglang;
pub(crate) mod shared_storage;

use std::time::Duration;

use bytes::Bytes;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::{
    api::Api,
    object::Object,
    pieces::Pieces,
    settings::{Settings, Transfer},
    target::Target,
    upstream::Upstream,
};

pub(crate) use mooncake::Mooncake;
pub(crate) use nixl::Nixl;
pub(crate) use offloading::Offloading;
pub(crate) use sglang::Sglang;

/// The field that tells engines about the transfer of a KV cache.
pub(crate) const TRANSFER: &str = "kv_transfer_params";

/// A connector with its settings.
#[derive(Debug)]
pub(crate) enum Connector {
    /// The decoder receives the prefiller's transfer parameters and fetches the cache.
    Nixl(Nixl),
    /// Engines find the cache in a shared storage.
    SharedStorage,
    /// Both engines connect through the prefiller's bootstrap port.
    Sglang(Sglang),
    /// The decoder receives the engine of the prefiller that has the cache.
    Mooncake(Box<Mooncake>),
    /// The decoder pulls the cache by a name that both engines receive.
    Offloading(Offloading),
}

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
pub(crate) type Continue<'a> = Box<dyn FnOnce(&[u8]) -> Result<Decode, serde_json::Error> + Send + 'a>;

/// Called when a prefill has failed.
pub(crate) type Failed = Box<dyn FnOnce() + Send>;

/// The requests to the engines, and their order.
pub(crate) enum Plan<'a> {
    /// The decoder's request is sent after the prefiller has answered.
    InTurn { prefill: Part, decode: Continue<'a> },
    /// Both requests are sent at the same time. The prefiller's response is discarded.
    AtOnce { prefill: Part, decode: Part, failed: Option<Failed> },
    /// Both requests are sent at the same time. The decoder's response is held until the prefiller succeeds, for at most
    /// `patience`.
    Held { prefill: Part, decode: Part, patience: Duration },
}

/// The request id that the engines receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    /// The client's id, or else a new one.
    Kept,
    /// Always a new id.
    Own,
    /// The client's id, or none, because the connector needs none.
    Untouched,
}

// === impl Connector ===

impl Connector {
    pub(crate) fn new(settings: &Settings) -> Self {
        match settings.transfer {
            Transfer::Nixl => {
                let moriio = settings.moriio.clone().map(moriio::Moriio::new);
                Self::Nixl(Nixl { ports: settings.pull, moriio })
            }
            Transfer::SharedStorage => Self::SharedStorage,
            Transfer::Sglang { bootstrap_port } => Self::Sglang(Sglang { bootstrap_port }),
            Transfer::Mooncake { bootstrap_port } => {
                Self::Mooncake(Box::new(Mooncake::new(bootstrap_port, Upstream::plain(settings))))
            }
            Transfer::Offloading { ports } => Self::Offloading(Offloading { ports }),
        }
    }

    /// Divides a request.
    ///
    /// # Errors
    /// A message if the prefiller does not provide the data for the decoder.
    pub(crate) async fn plan<'a>(&'a self, ask: SplitRequest<'a>) -> Result<Plan<'a>, String> {
        match self {
            Self::Nixl(nixl) => nixl.plan(ask).await,
            Self::SharedStorage => Ok(shared_storage::plan(ask)),
            Self::Sglang(sglang) => Ok(sglang.plan(ask)),
            Self::Mooncake(mooncake) => mooncake.plan(ask).await,
            Self::Offloading(offloading) => Ok(offloading.plan(ask)),
        }
    }

    /// Returns which `x-request-id` both engines receive.
    pub(crate) fn identity(&self) -> Identity {
        match self {
            // The transfer has the name of the request, so the name must be new.
            Self::Nixl(Nixl { moriio: Some(moriio), .. }) if moriio.parallel().is_some() => Identity::Own,
            Self::Nixl(_) => Identity::Kept,
            Self::SharedStorage | Self::Sglang(_) | Self::Mooncake(_) | Self::Offloading(_) => {
                Identity::Untouched
            }
        }
    }

    /// Whether the header that names a rank of the pod also chooses the decoder after a prefill.
    pub(crate) fn is_ranked_by_header(&self) -> bool {
        matches!(self, Self::Nixl(_))
    }

    /// Whether the decoder's request is sent before any prefill.
    pub(crate) fn decodes_first(&self, request: &Object<'_>) -> bool {
        matches!(self, Self::SharedStorage) && shared_storage::decodes_first(request)
    }

    /// Whether the client receives the response of a failed prefill without its headers.
    pub(crate) fn strips_error_headers(&self) -> bool {
        matches!(self, Self::SharedStorage)
    }

    /// Reads a request for two engines. Connectors that only add fields read `null` as an empty object, and leave the check
    /// of missing fields to the engines.
    pub(crate) fn read<'a>(&self, body: &'a Bytes) -> Result<Object<'a>, serde_json::Error> {
        match self {
            Self::Sglang(_) | Self::Mooncake(_) | Self::Offloading(_) if body.trim_ascii() == b"null" => {
                Ok(Object::default())
            }
            _ => Object::of(body),
        }
    }
}

// === impl Part ===

impl From<&Object<'_>> for Part {
    fn from(body: &Object<'_>) -> Self {
        Self { body: body.to_pieces(), rank: None }
    }
}

/// Reads a JSON number as a count.
pub(crate) fn number(value: &RawValue) -> Option<u64> {
    let number: f64 = value.get().parse().ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count of tokens; the cast saturates"
    )]
    let count = number as u64;
    Some(count)
}
