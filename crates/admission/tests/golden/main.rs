//! Schema, defaults and admission as a client of an API server meets them: against the recordings of the reference, and
//! against our own cases (`tests/cases/validation`).

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

mod cases;
mod folder;
mod merged;
mod recordings;
mod refusal;
mod server;
