//! Whatever goes wrong on the way, each shape of service gets to the same end.
//!
//! Time is virtual here: it moves when nothing is left to do, so that waits cost nothing and a busy machine changes
//! nothing. Trials are generated from `tests/cases/topology`; by default a part of them, which meets every write of every
//! shape with some fault, and with `LONGBOAT_FAULTS=all` every write with every fault.

mod edits;
mod fixpoint;
mod foreign;
mod scene;
mod topology;
mod two;
mod watches;
mod writes;

/// Whether every trial is to be made.
fn all() -> bool {
    std::env::var("LONGBOAT_FAULTS").is_ok_and(|value| value == "all")
}
