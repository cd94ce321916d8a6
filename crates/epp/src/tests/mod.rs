//! Whole requests: replayed recordings, single streams, and a picker over real sockets.

mod answers;
mod arguments;
mod burst;
mod cluster;
mod decisions;
mod eviction;
mod flow_control;
mod golden;
mod hostile;
mod latency;
mod metric_names;
mod metrics;
mod precise;
mod readers;
mod replays;
mod reports;
mod requests;
mod service;
pub(crate) mod support;
mod threads;
mod tokens;
mod trace;
