//! A vLLM-compatible model server without a model: API, metrics, timing and prefix-cache behaviour (contract 04 §11).
//!
//! It answers with generated filler text, but queues, batches, caches prompt prefixes and spends time as an engine
//! does, and reports all of it in vLLM's metrics, so that what a router does with them can be seen on a laptop.

mod api;
mod args;
mod duration;
mod engine;
mod help;
mod metrics;
mod server;
mod text;

pub use args::{Args, ArgsError, VERSION};
pub use help::HELP;
pub use server::{RunError, run, serve};
