//! Pods: deciding which containers to run ([`machine`]), running them ([`worker`]), and reporting their status ([`status`]).

mod backoff;
mod containers;
mod deletion;
mod directory;
mod download;
pub(crate) mod kubelet;
mod machine;
mod report;
mod services;
pub(crate) mod shared;
mod start;
mod status;
mod worker;
