//! The routing sidecar of a decode pod: it listens on the service's port, and where the picker named a
//! prefill endpoint, lets that one compute the prompt before the engine beside it decodes.
//!
//! How the cache gets from one to the other is the matter of a connector (`connectors`, one module each); in which order
//! the engines are asked is that of a flow (`flow`, one module an order).

mod allowlist;
mod answer;
mod api;
mod args;
mod body;
mod chunks;
mod connectors;
mod error;
mod flow;
mod headers;
mod metrics;
mod object;
mod pieces;
#[doc(hidden)]
pub mod probe;
mod proxy;
mod rewrite;
mod runtime;
mod server;
mod settings;
mod target;
mod upload;
mod upstream;
mod usage;

pub use args::{Args, MoriioArgs, expanded};
pub use error::Error;
pub use runtime::runtime;
pub use server::run;
