//! Runs the fuzz targets on the stored corpus, so that fixed faults stay fixed. With `LONGBOAT_FUZZ_SECONDS`, each target
//! also runs for that long on random changes of the corpus, which needs no nightly compiler.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on should stop, and says where it is"
)]

#[path = "../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../fuzz/src/targets.rs"]
mod targets;

const PIECES: [&str; 22] = [
    "{{",
    "}}",
    "null",
    "\"\"",
    "[]",
    "{}",
    ": ",
    "\n- ",
    "\n---\n",
    "&a ",
    "*a",
    "-1",
    "1e999",
    "9223372036854775808",
    "$patch",
    "v1alpha1",
    "v1alpha2",
    "{{range .}}",
    "{{end}}",
    "| printf \"%d\"",
    "\u{e9}",
    "\\u0000",
];

#[test]
fn the_corpus_of_every_fuzz_target_passes() {
    replay::replay(&targets::ALL);
}

#[test]
fn random_changes_of_the_corpus_pass() {
    replay::vary(&targets::ALL, &PIECES);
}
