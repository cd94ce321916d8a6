//! What the repository says about vLLM, held against a real one that `scripts/vllm-tools.sh` installs. The default tests compare
//! the simulator, the engine and the presets with the files beside this one. These tests check that the files are true, or
//! write them anew if `LONGBOAT_VLLM_RECORD` is set: for a newer vLLM, or after a change of `requests.yaml`.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod answers;
mod flags;
mod install;
mod picker;
mod server;
