//! The routing sidecar of a decode pod: it listens on the service's port, and where the picker named a
//! prefill endpoint, lets that one compute the prompt before the engine beside it decodes.
//!
//! It speaks the default connector, `nixlv2`: the prefill answer's `kv_transfer_params` go to the decoder, which fetches
//! the cache by itself. Other connectors are refused by name when it starts.

mod allowlist;
mod answer;
mod args;
mod body;
mod error;
mod flow;
mod headers;
mod legs;
mod metrics;
mod object;
#[doc(hidden)]
pub mod probe;
mod proxy;
mod rewrite;
mod server;
mod settings;
mod target;
mod upstream;
mod usage;

pub use args::{Args, expanded};
pub use error::Error;
pub use server::run;
