//! The API types against the recordings of the reference, and the generated CRDs against the files in `deploy/crds`.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod condition_laws;
mod conditions;
mod conversion;
mod crds;
mod types;
mod walk;
