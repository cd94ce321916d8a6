//! Runs the fuzz target for engine responses and metrics on the stored corpus, and on random changes of it.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on should stop, and says where it is"
)]

#[path = "../../../fuzz/src/proof.rs"]
mod proof;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;

const PIECES: [&str; 10] = [
    "\"model\":",
    "\"usage\":",
    "\"text\"",
    "\"error\":",
    "\0",
    "vllm:prompt_tokens_total ",
    "vllm:external_prefix_cache_hits_total",
    "{a=\"}\"}",
    "1e999",
    "\u{1b}[31m",
];

#[test]
fn the_corpus_passes() {
    replay::replay(&proof::ALL);
}

#[test]
fn random_changes_of_the_corpus_pass() {
    replay::vary(&proof::ALL, &PIECES);
}
