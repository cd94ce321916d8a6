//! Replays the corpus of the download fuzz targets, unchanged and with random changes. With `LONGBOAT_FUZZ_SECONDS`, each
//! target also runs for that long, without a nightly compiler.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test that cannot go on should stop, and says where it is"
)]

#[path = "../../../fuzz/src/fetch.rs"]
mod targets;

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use rand::{Rng, SeedableRng, rngs::SmallRng, seq::IndexedRandom};

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

#[test]
fn the_corpus_of_every_fuzz_target_passes() {
    for (name, target) in targets::ALL {
        let inputs = corpus(name);
        assert!(!inputs.is_empty(), "fuzz/corpus/{name} is empty");
        for input in &inputs {
            target(input);
        }
    }
}

#[test]
fn random_changes_of_the_corpus_pass() {
    let seconds = std::env::var("LONGBOAT_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let time = Duration::from_secs(seconds.unwrap_or(0));
    let mut random = SmallRng::seed_from_u64(if seconds.is_some() { rand::random() } else { 1 });
    for (name, target) in targets::ALL {
        let inputs = corpus(name);
        let start = Instant::now();
        let mut runs = 0_u64;
        while runs < 500 || start.elapsed() < time {
            let mut input = inputs.choose(&mut random).expect("there are inputs").clone();
            for _ in 0..random.random_range(1..8) {
                let at = random.random_range(0..=input.len());
                let until = random.random_range(at..=input.len().min(at + 64));
                match random.random_range(0..4) {
                    0 => input[at..until].iter_mut().take(2).for_each(|byte| *byte = random.random()),
                    1 => drop(input.drain(at..until)),
                    2 => {
                        let piece = input[at..until].to_vec();
                        input.splice(at..at, piece);
                    }
                    _ => {
                        let other = inputs.choose(&mut random).expect("there are inputs");
                        let from = random.random_range(0..=other.len());
                        let to = random.random_range(from..=other.len().min(from + 256));
                        input.splice(at..until, other[from..to].iter().copied());
                    }
                }
            }
            target(&input);
            runs += 1;
        }
        println!("{name}: {runs} runs");
    }
}
