//! Schema, defaults and admission from the view of a client, compared with the recordings of the reference and with our own
//! cases (`tests/cases/validation`).

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

mod cases;
mod folder;
mod merged;
mod recordings;
mod refusal;
mod server;
