//! A vLLM-compatible model server without a model.
//!
//! It answers with generated filler text. It queues, batches, caches prompt prefixes and spends time like a real engine, and
//! reports this in vLLM's metrics, so that a router's behaviour can be tested on a laptop. [`longboat_serving`] provides the
//! API, and this crate is a model behind it. If a request asks for a tool call, a JSON schema, a regular expression or a
//! choice, the generated answer has this form, or the request is refused.

mod args;
mod caches;
mod dialect;
mod duration;
mod engine;
mod faults;
mod generation;
mod handover;
mod help;
mod identity;
mod media;
mod model;
mod server;
mod structured_output;
mod text;
mod vectors;

pub use args::Args;
pub use help::HELP;
pub use longboat_serving::ENGINE_VERSION;
pub use model::Simulator;
pub use server::{run, serve};
