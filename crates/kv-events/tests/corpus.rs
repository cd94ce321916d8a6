//! Replays the stored corpus of the fuzz target for KV cache events, unchanged and with random changes.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on should stop, and says where it is"
)]

#[path = "../../../fuzz/src/kv_events.rs"]
mod kv_events;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;

const PIECES: [&str; 8] =
    ["BlockStored", "BlockRemoved", "AllBlocksCleared", "\u{4}", "READY", "type", "\u{1}", "gpu"];

#[test]
fn the_corpus_passes() {
    replay::replay(&kv_events::ALL);
}

#[test]
fn random_changes_of_the_corpus_pass() {
    replay::vary(&kv_events::ALL, &PIECES);
}
