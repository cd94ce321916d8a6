//! The endpoint picker as a service: watching pools and pods, scraping metrics, answering ext_proc.
//!
//! It plays the role of llm-d-router's `epp` and takes its flags ([`Args`]). Requests are decided by
//! `longboat-scheduler`; this crate knows where endpoints come from, what they say about themselves, and how a
//! request and its answer travel. State that requests share is in `core`, the state machine of one request in
//! `exchange`.

mod admission;
mod answer;
mod args;
mod body;
mod burst;
mod companion;
mod core;
mod decisions;
mod discovery;
mod error;
mod exchange;
mod health;
mod kv_events;
mod latency;
mod lease;
mod metrics;
mod monitoring;
mod pool;
#[doc(hidden)]
pub mod probe;
mod readers;
mod rewrites;
mod scrape;
mod service;
mod subset;
mod tokens;

pub use args::{Args, ArgsError, normalized};
pub use error::Error;
pub use service::{Server, run, runtime};

#[cfg(test)]
mod tests;
