//! Replays the corpus of the data plane's fuzz targets, unchanged and with random changes. The test is in this crate because
//! most of the targets belong to the picker.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on should stop, and says where it is"
)]

#[path = "../../../fuzz/src/data_plane.rs"]
mod data_plane;
#[path = "../../../fuzz/src/decisions.rs"]
mod decisions;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;

const PIECES: [&str; 16] = [
    "null",
    "\"\"",
    "[]",
    "{}",
    "\"model\":",
    "\"usage\"",
    "\\u0000",
    "\\\"",
    "1e999",
    "-9223372036854775809",
    "NaN",
    "data: ",
    "\n\n",
    "{a=\"b\"}",
    "@",
    "\u{e9}",
];

#[test]
fn the_corpus_of_every_fuzz_target_passes() {
    replay::replay(&data_plane::ALL);
    replay::replay(&decisions::ALL);
}

#[test]
fn random_changes_of_the_corpus_pass() {
    replay::vary(&data_plane::ALL, &PIECES);
    replay::vary(&decisions::ALL, &["id=", "&", "limit=", "%", "%c3%a9", "20", "="]);
}
