//! Whatever fails on the way, each shape of service reaches the same final state.
//!
//! Time is virtual: it advances when there is nothing left to do, so waiting is free and a busy machine does not change the
//! results. Trials are generated from `tests/cases/topology`. By default a part of them runs, in which every write of every
//! shape has some fault. With `LONGBOAT_FAULTS=all`, every write has every fault.

mod edits;
mod fixpoint;
mod foreign;
mod scene;
mod topology;
mod watches;
mod writes;

/// Whether all trials run.
fn all() -> bool {
    std::env::var("LONGBOAT_FAULTS").is_ok_and(|value| value == "all")
}
