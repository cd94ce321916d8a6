//! For tests only: recordings of the reference's controller, and how what we do compares with them.
//!
//! Two judges read the same cases: planning alone, which takes seconds, and the controller on the embedded API server,
//! which takes every case.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a recording that cannot be read fails the test"
)]

mod case;
mod judge;
mod report;
mod transcript;

pub use case::{Case, Recorded, Stage, documents, folders, golden};
pub use judge::{Difference, MeantDifferences, differences, normal_child, normal_status};
pub use report::Report;
pub use transcript::{answer_causes, transcript};
