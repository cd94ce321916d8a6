//! The routing sidecar of a decode pod. It listens on the service's port. If the picker names a prefill endpoint, the sidecar
//! lets this endpoint compute the prompt before the engine beside it decodes.
//!
//! A connector transfers the KV cache from one engine to the other (`connectors`, one module each). A flow decides the order
//! of the requests (`flow`, one module per order).

mod allowlist;
mod answer;
mod api;
mod args;
mod body;
mod chunks;
mod connectors;
mod error;
mod flow;
#[doc(hidden)]
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod headers;
mod metrics;
mod model_fields;
mod object;
mod pieces;
mod proxy;
mod refusal;
mod rewrite;
mod runtime;
mod server;
mod settings;
mod spans;
mod target;
mod upload;
mod upstream;
mod usage;

pub use args::{Args, MoriioArgs, expanded};
pub use error::Error;
pub use refusal::refusal;
pub use runtime::runtime;
pub use server::run;

#[cfg(test)]
mod corpus;

// The fuzz targets name this crate, and its tests share them.
#[cfg(test)]
extern crate self as longboat_sidecar;
