//! Replays the corpus of the gateway's fuzz targets, unchanged and with random changes.
#![expect(clippy::print_stdout, reason = "a long run says where it is")]

#[path = "../../../../fuzz/src/gateway.rs"]
mod gateway;
#[path = "../../../../fuzz/src/replay.rs"]
mod replay;

const PIECES: [&str; 17] = [
    "null",
    "[]",
    "{}",
    "\"\"",
    "\"matches\":",
    "\"name\":",
    "\"type\":",
    "4294967295",
    "-1",
    "\n\n",
    "\r\n",
    "data: ",
    "data: [DONE]",
    "event: ",
    "\"usage\":",
    "tokensPerDay",
    "sha256",
];

#[test]
fn the_corpus_of_every_fuzz_target_passes() {
    replay::replay(&gateway::ALL);
}

#[test]
fn random_changes_of_the_corpus_pass() {
    replay::vary(&gateway::ALL, &PIECES);
}
