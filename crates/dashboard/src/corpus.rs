//! Replays the corpus of the dashboard's fuzz targets, unchanged and with random changes.
#![expect(clippy::print_stdout, reason = "a long run says where it is")]

#[path = "../../../fuzz/src/page.rs"]
mod page;
#[path = "../../../fuzz/src/replay.rs"]
mod replay;

const PIECES: [&str; 12] = [
    "vllm:num_requests_running",
    "{engine=\"0\"}",
    "1e999",
    "NaN",
    "/",
    "..",
    "%2f",
    "null",
    "\"model\":",
    "---\n",
    "resourceVersion: \"1\"",
    "\u{e9}",
];

#[test]
fn the_corpus_of_every_fuzz_target_passes() {
    replay::replay(&page::ALL);
}

#[test]
fn random_changes_of_the_corpus_pass() {
    replay::vary(&page::ALL, &PIECES);
}
