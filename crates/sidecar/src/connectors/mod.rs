//! How prefill results reach the decoder: what each connector makes of one request for two engines.
//!
//! A connector only says what is asked of whom, and in which order. Sending is the part of [`crate::flow`], which knows
//! the orders and no connector.

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

/// The field in which engines are told about the transfer of a cache.
pub(crate) const TRANSFER: &str = "kv_transfer_params";

/// A connector with its settings.
#[derive(Debug)]
pub(crate) enum Connector {
    /// The decoder is told what the prefiller answered, and fetches the cache.
    Nixl(Nixl),
    /// Engines find the cache in a storage that they share.
    SharedStorage,
    /// Both engines meet at the prefiller.
    Sglang(Sglang),
    /// The decoder is told which engine of the prefiller has the cache.
    Mooncake(Box<Mooncake>),
    /// The decoder pulls the cache by a name that both engines are given.
    Offloading(Offloading),
}

/// A request that two engines are to share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) api: Api,
    pub(crate) request: &'a Object<'a>,
    pub(crate) prefiller: &'a Target,
    /// Names this request and no other.
    pub(crate) id: Uuid,
    /// Another engine that has a part of the prompt cached.
    pub(crate) source: Option<&'a Target>,
}

/// What one engine is asked.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) body: Pieces,
    /// The rank of the engine that has to take it, where its ranks share a port.
    pub(crate) rank: Option<u32>,
}

/// What the decoder is asked once the prefiller has answered.
#[derive(Debug, Clone)]
pub(crate) struct Decode {
    pub(crate) part: Part,
    /// Tokens of the prompt that the prefiller had cached; none: the decoder's own count stays.
    pub(crate) cached_tokens: Option<u64>,
}

/// Makes the decoder's part from the body of the prefiller's answer.
pub(crate) type Continue<'a> = Box<dyn FnOnce(&[u8]) -> Result<Decode, serde_json::Error> + Send + 'a>;

/// What is done when a prefill has failed.
pub(crate) type Failed = Box<dyn FnOnce() + Send>;

/// Who is asked what, and in which order.
pub(crate) enum Plan<'a> {
    /// The decoder is asked when the prefiller has answered.
    InTurn { prefill: Part, decode: Continue<'a> },
    /// Both are asked at the same time, and what the prefiller answers is for nobody.
    AtOnce { prefill: Part, decode: Part, failed: Option<Failed> },
    /// Both are asked at the same time; the decoder's answer waits for the prefiller to succeed, and no longer than that.
    Held { prefill: Part, decode: Part, patience: Duration },
}

/// Whose name a request goes by at the engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    /// The client's, or else the request's own.
    Kept,
    /// The request's own, whatever the client calls it.
    Own,
    /// The client's, or none: the connector needs none.
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
    /// A sentence, where the prefiller does not say what the decoder has to be told.
    pub(crate) async fn plan<'a>(&'a self, ask: Ask<'a>) -> Result<Plan<'a>, String> {
        match self {
            Self::Nixl(nixl) => nixl.plan(ask).await,
            Self::SharedStorage => Ok(shared_storage::plan(ask)),
            Self::Sglang(sglang) => Ok(sglang.plan(ask)),
            Self::Mooncake(mooncake) => mooncake.plan(ask).await,
            Self::Offloading(offloading) => Ok(offloading.plan(ask)),
        }
    }

    /// The `x-request-id` that both engines get.
    pub(crate) fn identity(&self) -> Identity {
        match self {
            // The transfer is named after the request, so that its name must be new.
            Self::Nixl(Nixl { moriio: Some(moriio), .. }) if moriio.parallel().is_some() => Identity::Own,
            Self::Nixl(_) => Identity::Kept,
            Self::SharedStorage | Self::Sglang(_) | Self::Mooncake(_) | Self::Offloading(_) => {
                Identity::Untouched
            }
        }
    }

    /// Whether the header that names one of the pod's ranks chooses the engine that decodes after a prefill.
    pub(crate) fn is_ranked_by_header(&self) -> bool {
        matches!(self, Self::Nixl(_))
    }

    /// Whether the decoder is asked before anybody prefills.
    pub(crate) fn decodes_first(&self, request: &Object<'_>) -> bool {
        matches!(self, Self::SharedStorage) && shared_storage::decodes_first(request)
    }

    /// Whether the answer of a failed prefill reaches the client without its headers.
    pub(crate) fn fails_barely(&self) -> bool {
        matches!(self, Self::SharedStorage)
    }

    /// Reads a request for two engines. Connectors that only add fields take `null` for an object without fields, and leave
    /// what is missing to the engines.
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

/// A count, as JSON writes it.
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
