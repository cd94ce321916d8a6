//! Runs the stored inputs of the fuzz target `openai_body`.

use std::{fs, path::Path};

#[path = "../../../fuzz/src/openai.rs"]
mod openai;

#[test]
fn every_body_of_the_corpus_is_answered_or_refused() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/openai_body");
    let mut count = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        openai::openai_body(&fs::read(path).unwrap());
        count += 1;
    }
    assert!(count >= 9, "the corpus is in {}", folder.display());
}
