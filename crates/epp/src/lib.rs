//! The endpoint picker as a service: watches pools and pods, scrapes metrics, and answers ext_proc.
//!
//! It takes the role of llm-d-router's `epp` and has the same flags ([`Args`]). `longboat-scheduler` makes the decisions. This
//! crate finds the endpoints, reads their metrics, and handles the messages of requests and responses. The state that requests
//! share is in `core`, and the state machine of one request in `exchange`.

mod admission;
mod answer;
mod args;
mod backoff;
mod body;
mod buffer_pool;
mod burst;
mod companion;
mod core;
mod decisions;
mod discovery;
mod error;
mod exchange;
#[doc(hidden)]
pub mod fuzzing;
mod gate;
mod health;
pub mod host;
mod kv_events;
mod latency;
mod lease;
mod metrics;
mod monitoring;
mod pool;
mod pool_picker;
mod ports;
mod readers;
mod request_trace;
mod rewrites;
mod saturation;
mod scrape;
mod service;
mod shared;
mod subset;
mod sync;
mod tokens;

pub use args::{Args, ArgsError, normalized, refusal};
pub use error::Error;
pub use pool_picker::{PoolPicker, needs_pod};
pub use service::{Server, run, runtime};
pub use shared::{SharedArgs, run as run_shared};

#[cfg(test)]
mod tests;
