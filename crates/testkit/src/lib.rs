//! For tests only: an embedded API server with a platform, and clients and watches with faults.

#![expect(
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a test whose world cannot be set up has failed"
)]

mod awaited;
mod faults;
mod own_kinds;
mod test_cluster;
mod watching;

pub use awaited::Awaited;
pub use faults::{Fault, Faults, Write, faulty};
pub use own_kinds::OwnKinds;
pub use test_cluster::TestCluster;
pub use watching::Watching;
