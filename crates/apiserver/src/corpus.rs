//! Replays the stored corpus of this crate's fuzz targets, unchanged and with random changes, so that fixed bugs stay fixed.
#![expect(clippy::print_stdout, reason = "a long run says where it is")]

#[path = "../../../fuzz/src/replay.rs"]
mod replay;

use crate::fuzz::ALL;

const PIECES: [&str; 12] =
    ["null", "{}", "[]", "\"\"", "metadata", "\"op\":", "/-", "~1", " in (", "!=", "1e999", "\u{e9}"];

#[test]
fn the_corpus_of_every_fuzz_target_passes() {
    replay::replay(&ALL);
}

#[test]
fn random_changes_of_the_corpus_pass() {
    replay::vary(&ALL, &PIECES);
}
