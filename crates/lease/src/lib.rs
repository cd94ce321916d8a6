//! Leader election by a Lease: one of several replicas leads.
//!
//! [`Timing`] and the rules are pure functions of the observed lease and the local clock. [`Candidate`] reads and writes the
//! Lease. Every request has a deadline: on a dead connection a response never comes, and without a deadline a leader that
//! waits for it would still lead after another replica has taken the lease.

mod candidate;
mod rules;

pub use candidate::{Candidate, LeaseLost};
pub use rules::Timing;
