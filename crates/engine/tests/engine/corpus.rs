//! Replays the corpus of this crate's fuzz targets, unchanged and with random changes, so that fixed bugs stay fixed.

use std::{fs, path::Path};

use longboat_engine::fuzz::ALL;
use proptest::{collection::vec, prelude::*};

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

#[test]
fn the_corpus_of_every_fuzz_target_passes() {
    for (name, target) in ALL {
        let inputs = corpus(name);
        assert!(!inputs.is_empty(), "fuzz/corpus/{name} is empty");
        for input in &inputs {
            target(input);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn random_changes_of_the_corpus_pass(
        chosen in any::<prop::sample::Index>(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..6),
    ) {
        for (name, target) in ALL {
            let inputs = corpus(name);
            let mut input = chosen.get(&inputs).clone();
            for (at, byte, how) in &changes {
                if input.is_empty() {
                    break;
                }
                let at = at.index(input.len());
                match how {
                    0 => input[at] = *byte,
                    1 => drop(input.remove(at)),
                    _ => input.insert(at, *byte),
                }
            }
            target(&input);
        }
    }
}
