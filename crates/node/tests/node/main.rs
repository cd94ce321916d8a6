//! Tests of the node against the embedded API server, with real processes.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

mod killed;
mod kubelet;
mod mounts;
mod placement;
mod pods;
mod probes;
mod recorded;
mod roles;
mod shutdown;
mod test_node;
mod workloads;
