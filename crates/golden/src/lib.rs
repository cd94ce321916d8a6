//! For tests only: recordings of the reference, and how what we do compares with them.
//!
//! The recordings are packed in this crate (`recordings/`, its README says what they are); with `LONGBOAT_GOLDEN` set, the tests
//! read those of another folder. Two judges read the same cases: planning alone, which takes seconds, and the controller on
//! the embedded API server, which takes every case.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a recording that cannot be read fails the test"
)]

mod archive;
mod case;
mod entry;
mod judge;
mod pack;
mod report;
mod transcript;

pub use archive::parts;
pub use case::{Case, Recorded, Stage, documents, folders};
pub use entry::{Entry, golden, part};
pub use judge::{Difference, MeantDifferences, differences, normal_child, normal_status};
pub use pack::{Packed, pack};
pub use report::Report;
pub use transcript::{answer_causes, transcript};
