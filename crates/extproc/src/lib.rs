//! Envoy's ext_proc protocol: server and client.
//!
//! One bidirectional gRPC stream carries one HTTP request: a proxy (Envoy, or Longboat's gateway) sends [`Event`]s, a
//! processor (the endpoint picker) answers with [`Action`]s. Bodies travel in `FULL_DUPLEX_STREAMED` mode: the processor
//! sends every chunk back, changed or not.
//!
//! * [`serve`] runs a [`Processor`]: a synchronous state machine per stream, without a task or channel of its own.
//! * [`Client`] opens an [`Exchange`] per HTTP request; dropping the exchange cancels the stream.
//! * [`Exchange::in_process`] opens one with a processor of this process. Its caller sees no difference.
//!
//! The server has its own HTTP/2 transport, which also answers health checks; the client uses tonic.
//! Neither the transport nor the protobuf types appear in this interface, so both can be replaced without changing its
//! users.

mod client;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod headers;
mod local;
mod message;
mod metadata;
mod server;
mod windows;
mod wire;

pub use client::{Client, Exchange, Receiver, Sender};
pub use error::ClientError;
pub use headers::{Header, HeaderChanges, Headers};
pub use message::{Action, Event, ImmediateResponse, Incoming, MAX_BODY_CHUNK, Reply};
pub use metadata::Metadata;
pub use server::{
    Exchange as ProcessorExchange, HealthCheck, Limits, Outbox, Processor, ServerOptions, serve, serve_health,
};

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
    /// Request headers that determine which endpoint a request goes to. Only a picker may set them: a proxy removes them from
    /// client requests.
    pub const STEERING: [&str; 3] = [DESTINATION, DESTINATION_SUBSET, DESTINATION_SERVED];
}

#[cfg(test)]
mod tests;

// The fuzz targets name this crate, and its tests share them.
#[cfg(test)]
extern crate self as longboat_extproc;
