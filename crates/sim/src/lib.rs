//! A vLLM-compatible model server without a model.
//!
//! It answers with generated filler text, but queues, batches, caches prompt prefixes and spends time as an engine
//! does, and reports all of it in vLLM's metrics, so that what a router does with them can be seen on a laptop. The API
//! is [`longboat_serving`]'s; this crate is a model behind it. Where a request asks for a tool call, a JSON schema, a
//! regular expression or a choice, the made-up answer has that form, or the request is refused.

mod args;
mod duration;
mod engine;
mod faults;
mod generation;
mod handover;
mod help;
mod identity;
#[cfg(test)]
mod kv_events_tests;
mod made;
mod media;
mod model;
mod server;
mod text;
mod vectors;

pub use args::{Args, VERSION};
pub use help::HELP;
pub use model::Simulator;
pub use server::{run, serve};
