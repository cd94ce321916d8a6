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
mod plan;
pub(crate) mod sglang;
pub(crate) mod shared_storage;

use bytes::Bytes;

pub(crate) use self::{
    mooncake::Mooncake,
    nixl::Nixl,
    plan::{DecodeBuilder, FailureCallback, Part, Plan, SplitRequest, TRANSFER},
};
use crate::{
    object::Object,
    settings::{Settings, Transfer},
    upstream::Upstream,
};

/// A connector with its settings.
#[derive(Debug)]
pub(crate) enum Connector {
    /// The decoder receives the prefiller's transfer parameters and fetches the cache.
    Nixl(Nixl),
    /// Engines find the cache in a shared storage.
    SharedStorage,
    /// Both engines connect through the prefiller's bootstrap port.
    Sglang { bootstrap_port: u16 },
    /// The decoder receives the engine of the prefiller that has the cache.
    Mooncake(Box<Mooncake>),
    /// The decoder pulls the cache by a name that both engines receive.
    Offloading { ports: p2p::Ports },
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
            Transfer::Sglang { bootstrap_port } => Self::Sglang { bootstrap_port },
            Transfer::Mooncake { bootstrap_port } => {
                Self::Mooncake(Box::new(Mooncake::new(bootstrap_port, Upstream::plain(settings))))
            }
            Transfer::Offloading { ports } => Self::Offloading { ports },
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
            Self::Sglang { bootstrap_port } => Ok(sglang::plan(ask, *bootstrap_port)),
            Self::Mooncake(mooncake) => mooncake.plan(ask).await,
            Self::Offloading { ports } => Ok(offloading::plan(ask, *ports)),
        }
    }

    /// Returns which `x-request-id` both engines receive.
    pub(crate) fn identity(&self) -> Identity {
        match self {
            // The transfer has the name of the request, so the name must be new.
            Self::Nixl(Nixl { moriio: Some(moriio), .. }) if moriio.parallel().is_some() => Identity::Own,
            Self::Nixl(_) => Identity::Kept,
            Self::SharedStorage | Self::Sglang { .. } | Self::Mooncake(_) | Self::Offloading { .. } => {
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
            Self::Sglang { .. } | Self::Mooncake(_) | Self::Offloading { .. }
                if body.trim_ascii() == b"null" =>
            {
                Ok(Object::default())
            }
            _ => Object::of(body),
        }
    }
}
