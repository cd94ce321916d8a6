//! Leader election by a Lease: of several replicas one leads.
//!
//! [`Timing`] and the rules are pure functions of the lease as it was seen and of the local clock. [`Candidate`] reads and writes the Lease.
//! Every request has a deadline: on a dead connection a response never comes, and a leader that waits for it would still lead when
//! another replica has taken the lease.

mod candidate;
mod rules;

pub use candidate::{Candidate, Lost};
pub use rules::Timing;
