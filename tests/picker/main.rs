//! The built picker behind a real Envoy, as clients of a gateway see it.
//!
//! No test asserts on elapsed time. Without Envoy (scripts/tools.sh fetches it), the tests are reported as not run.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod death;
mod disaggregated;
mod envoy;
mod http;
mod leader;
mod monitoring;
#[path = "../local/processes.rs"]
#[expect(dead_code, reason = "shared with the tests of local mode")]
mod processes;
#[path = "../local/prometheus.rs"]
mod prometheus;
mod requests;
#[path = "../local/tools.rs"]
#[expect(dead_code, reason = "shared with the tests of local mode")]
mod tools;
#[path = "../local/wait.rs"]
mod wait;
mod world;
