//! The node against the embedded API server, with real processes.

mod killed;
mod pods;
mod probes;
mod recorded;
mod roles;
mod shutdown;
mod workloads;
mod world;
