//! Pickers in the gateway's own process. Requests reach them without gRPC and without a copy of their bodies.
//!
//! [`spec`] says which pickers to run; `longboat_epp` hosts them.

mod machine;
mod spec;

pub(crate) use self::{
    machine::run,
    spec::{of_cluster, trim},
};

/// Where endpoint pickers run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Picking {
    /// In their pods, which the gateway calls for each request
    #[default]
    Pods,
    /// In the gateway, unless a picker needs something of its pod
    Gateway,
}
