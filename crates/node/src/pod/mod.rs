//! Pods: what to run ([`machine`]), running it ([`worker`]), and saying so ([`status`]).

mod backoff;
mod containers;
mod directory;
mod download;
pub(crate) mod kubelet;
mod machine;
mod qos;
mod report;
mod services;
mod start;
mod status;
mod worker;
