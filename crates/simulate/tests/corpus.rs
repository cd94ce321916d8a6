//! Replays the corpus of the fuzz targets of simulations and autoscalers, unchanged and with random changes.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on should stop, and says where it is"
)]

#[path = "../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../fuzz/src/simulate.rs"]
mod simulate;

const PIECES: [&str; 18] = [
    "null",
    "[]",
    "{}",
    "1e999",
    "-1",
    "4000001",
    "NaN",
    "0.0",
    ",",
    "\n",
    "\"hash_ids\":",
    "\"segments\":",
    "rate(",
    "sum by (",
    "[5m]",
    "=~\"",
    "or vector(0)",
    ")",
];

#[test]
fn the_corpus_of_every_fuzz_target_passes() {
    replay::replay(&simulate::ALL);
}

#[test]
fn random_changes_of_the_corpus_pass() {
    replay::vary(&simulate::ALL, &PIECES);
}
