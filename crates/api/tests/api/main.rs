//! Compares the API types with the recordings of KServe, and the generated CRDs with the files in `deploy/crds`.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod condition_laws;
mod conditions;
mod conversion;
mod crds;
mod types;
mod walk;
