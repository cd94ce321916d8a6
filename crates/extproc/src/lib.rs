//! The Envoy ext_proc wire, server and client.
//!
//! One bidirectional gRPC stream carries one HTTP request: a proxy (Envoy, or our gateway) sends [`Event`]s, a
//! processor (the endpoint picker) answers with [`Action`]s. Bodies travel in `FULL_DUPLEX_STREAMED` mode
//! so every chunk that a proxy sends comes back from the processor, changed or not.
//!
//! * [`serve`] runs a [`Processor`]: a synchronous state machine per stream, without a task or channel of its own.
//! * [`Client`] opens an [`Exchange`] per HTTP request; dropping the exchange cancels the stream.
//!
//! The transport (our own HTTP/2; tonic for the client, and where a port has other services) and the protobuf types do not
//! appear in this interface, so either can be replaced without touching its users.

mod client;
mod error;
mod headers;
mod message;
mod metadata;
#[doc(hidden)]
pub mod probe;
mod server;
mod wire;

pub use client::{Client, Exchange, Receiver, Sender};
pub use error::{ClientError, ServeError};
pub use headers::{Header, HeaderChanges, Headers};
pub use message::{Action, Event, ImmediateResponse, Incoming, MAX_BODY_CHUNK, Reply};
pub use metadata::Metadata;
pub use server::{Exchange as ProcessorExchange, Outbox, Processor, ServerOptions, Transport, serve};

/// Names of the endpoint picker protocol: headers and metadata keys.
pub mod names {
    /// Header and metadata key of the chosen endpoint or endpoints: `ip:port[,ip:port…]`, best first.
    pub const DESTINATION: &str = "x-gateway-destination-endpoint";
    /// Metadata key of the endpoint that served, set by the proxy on the response.
    pub const DESTINATION_SERVED: &str = "x-gateway-destination-endpoint-served";
    /// Metadata key of the scores, as an object from `ip:port` to number.
    pub const DESTINATION_SCORES: &str = "x-gateway-destination-endpoint-scores";
    /// Metadata key (within [`SUBSET_NAMESPACE`]) of the endpoints to choose from.
    pub const DESTINATION_SUBSET: &str = "x-gateway-destination-endpoint-subset";
    /// Metadata namespace of the chosen and of the served endpoint.
    pub const LB_NAMESPACE: &str = "envoy.lb";
    /// Metadata namespace of the subset hint.
    pub const SUBSET_NAMESPACE: &str = "envoy.lb.subset_hint";
    /// Header of an error answer that says why a request was dropped.
    pub const DROPPED_REASON: &str = "x-llm-d-request-dropped-reason";
    /// Request headers that say which servers a request goes to. Only a picker may set them: a proxy removes those that a
    /// client sends.
    pub const STEERING: [&str; 7] = [
        DESTINATION,
        DESTINATION_SUBSET,
        DESTINATION_SERVED,
        "x-prefiller-host-port",
        "x-encoder-hosts-ports",
        "x-data-parallel-host-port",
        "x-kv-cache-source-host-port",
    ];
}

#[cfg(test)]
mod tests;
