//! What the repository says about vLLM, held against a real one that `scripts/vllm-tools.sh` installs. The default tests compare
//! the simulator, the engine and the presets with the files beside this one. These tests check that the files are true, or
//! write them anew if `LONGBOAT_VLLM_RECORD` is set: for a newer vLLM, or after a change of `requests.yaml`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod answers;
mod clients;
mod dashboard;
mod data_parallel;
mod disaggregated;
mod failures;
#[path = "../local/http.rs"]
#[expect(dead_code, reason = "shared with the tests of local mode")]
mod http;
mod install;
mod llama_cpp;
#[path = "../local/local_cluster.rs"]
#[expect(dead_code, reason = "shared with the tests of local mode")]
mod local_cluster;
mod options;
#[path = "../local/page.rs"]
#[expect(dead_code, reason = "shared with the tests of local mode")]
mod page;
mod picker;
#[path = "../local/processes.rs"]
#[expect(dead_code, reason = "shared with the tests of local mode")]
mod processes;
#[path = "../local/program.rs"]
#[expect(dead_code, reason = "shared with the tests of local mode")]
mod program;
mod server;
mod service;
mod tls;
#[path = "../local/tools.rs"]
#[expect(dead_code, reason = "shared with the tests of local mode")]
mod tools;
#[path = "../local/wait.rs"]
mod wait;
mod world;
