//! The controller on the embedded API server: what it writes, how it fails, and that it comes to rest.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

mod configs;
mod downloads;
mod election;
mod faults;
mod golden;
mod late;
mod lifecycle;
mod mutating;
mod offline;
mod optional;
mod order;
mod proof;
mod refusals;
mod rest;
mod rights;
mod runtimes;
mod secrets;
mod setup;
mod tap;
mod webhooks;
