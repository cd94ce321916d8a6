//! For tests and documentation only: recordings of KServe and Kubernetes, the comparison of Longboat with them, and the
//! intended differences ([`compatibility`]). And what tests say that cannot run ([`skipped`]).
//!
//! The recordings are archived in this crate (`recordings/`, with a README that describes them). If `LONGBOAT_GOLDEN` is
//! set, the tests read the recordings in that folder instead. Two tests compare the same cases: planning alone, which takes
//! seconds, and the controller on the embedded API server, which covers every case.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a recording that cannot be read fails the test"
)]

mod archive;
mod case;
pub mod compatibility;
mod entry;
mod judge;
mod pack;
mod report;
mod skipped;
mod transcript;
pub mod vllm;

pub use archive::parts;
pub use case::{Case, RecordedChild, Stage, documents, folders};
pub use entry::{Entry, golden, part};
pub use judge::{Difference, IntendedDifferences, differences, normal_child, normal_status};
pub use pack::{PackReport, pack};
pub use report::Report;
pub use skipped::{skipped, take_skipped};
pub use transcript::{answer_causes, transcript};
