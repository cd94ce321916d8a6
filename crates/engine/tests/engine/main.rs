//! The engine as programs and clients use it.
//!
//! One program: the package is optimised, and each program of tests would compile its HTTP client again.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod corpus;
mod gguf_models;
mod openai;
mod real_model;
mod server;
mod small_models;
mod templates;
mod transfer;
mod vllm;
