//! Replays the corpus of the fuzz target of HTTP/2, unchanged and with random changes.
#![expect(clippy::print_stdout, reason = "a long run says where it is")]

#[path = "../../../../fuzz/src/frames.rs"]
mod frames;
#[path = "../../../../fuzz/src/replay.rs"]
mod replay;

#[test]
fn the_corpus_of_every_fuzz_target_passes() {
    replay::replay(&frames::ALL);
}

#[test]
fn random_changes_of_the_corpus_pass() {
    replay::vary(&frames::ALL, &["\0", "\x0f", "\x11", "\x12"]);
}
