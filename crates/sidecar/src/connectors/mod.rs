//! How prefill results reach the decoder: what each connector makes of one request for two engines.
//!
//! A connector only says what is asked of whom, and in which order. Sending is the part of [`crate::flow`], which knows
//! the orders and no connector.

pub(crate) mod nixl;

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::{
    api::Api,
    object::Object,
    settings::{Settings, Transfer},
};

pub(crate) use nixl::Nixl;

/// The field in which engines are told about the transfer of a cache.
pub(crate) const TRANSFER: &str = "kv_transfer_params";

/// A connector with its settings.
#[derive(Debug)]
pub(crate) enum Connector {
    /// The decoder is told what the prefiller answered, and fetches the cache.
    Nixl(Nixl),
}

/// A request that two engines are to share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) api: Api,
    pub(crate) request: &'a Object<'a>,
}

/// What one engine is asked.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) body: Bytes,
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

/// Who is asked what, and in which order.
pub(crate) enum Plan<'a> {
    /// The decoder is asked when the prefiller has answered.
    InTurn { prefill: Part, decode: Continue<'a> },
}

/// Whose name a request goes by at the engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identity {
    /// The client's, or else the request's own.
    Kept,
}

// === impl Connector ===

impl Connector {
    pub(crate) fn new(settings: &Settings) -> Self {
        match &settings.transfer {
            Transfer::Nixl => Self::Nixl(Nixl),
        }
    }

    /// Divides a request.
    pub(crate) fn plan<'a>(&'a self, ask: Ask<'a>) -> Plan<'a> {
        match self {
            Self::Nixl(nixl) => nixl.plan(ask),
        }
    }

    /// The `x-request-id` that both engines get.
    pub(crate) fn identity(&self) -> Identity {
        match self {
            Self::Nixl(_) => Identity::Kept,
        }
    }
}

// === impl Part ===

impl From<&Object<'_>> for Part {
    fn from(body: &Object<'_>) -> Self {
        Self { body: body.to_vec().into(), rank: None }
    }
}

/// Tokens of the prompt that an engine says it had cached; none of them where it does not say.
pub(crate) fn cached_tokens(answer: &Object<'_>) -> u64 {
    let cached = || {
        let usage = Object::parse(answer.get("usage")?.get().as_bytes()).ok()?;
        let details = Object::parse(usage.get("prompt_tokens_details")?.get().as_bytes()).ok()?;
        number(details.get("cached_tokens")?)
    };
    cached().unwrap_or_default()
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
