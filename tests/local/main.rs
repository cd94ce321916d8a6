//! End-to-end tests of the built binary: `longboat up`, stock kubectl, curl and the official `openai` client.
//!
//! Tests run side by side, one for each core: most of their time is spent waiting. Each has its own world, except that tests that
//! only read share one. No test asserts on elapsed time: tests poll conditions, with limits that even a busy machine keeps.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod api_keys;
mod asking;
mod book;
mod browser;
mod canary;
#[path = "../../crates/telemetry/tests/traces/collector.rs"]
#[expect(dead_code, reason = "shared with the tests of other crates")]
mod collector;
mod connectors;
mod dashboard;
mod doctor;
mod embeddings;
mod encoders;
mod engine;
mod engine_death;
mod examples;
mod examples_computed;
mod fixpoint;
mod http;
mod https;
mod kubectl_reads;
mod kubectl_writes;
mod layers;
mod listeners;
mod load;
mod local_cluster;
mod mistakes;
mod mount_paths;
mod once;
mod openai;
mod page;
mod page_scale;
mod pairing;
mod picker_death;
mod plugin;
mod pod_tls;
mod pods;
mod ports;
mod processes;
mod program;
mod prometheus;
mod proof;
mod reading;
mod replicas;
mod request_id;
mod run;
mod runtime_adapters;
mod scale_to_zero;
mod seeds;
mod shared_picker;
mod sidecar;
mod sidecar_tls;
mod signals;
mod simulate;
mod state;
mod streaming;
mod terminal;
mod tools;
mod troubleshooting;
mod upgrade;
mod validate;
mod wait;
mod watching;
