//! Replays the corpus of the sidecar's fuzz targets, unchanged and with random changes.
#![expect(clippy::print_stdout, reason = "a long run says where it is")]

#[path = "../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../fuzz/src/sidecar.rs"]
mod sidecar;

#[test]
fn the_corpus_of_every_fuzz_target_passes() {
    replay::replay(&sidecar::ALL);
}

#[test]
fn random_changes_of_the_corpus_pass() {
    replay::vary(
        &sidecar::ALL,
        &["null", "[]", "{}", "\"\"", "\"model\":", "\"usage\"", "data: ", "\n\n", "@", ":", "\u{e9}"],
    );
}
