//! Runs targets on the stored corpus, and on random changes of it. Tests share this file.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use rand::{Rng, SeedableRng, rngs::SmallRng, seq::IndexedRandom};

/// A target runs on one input.
pub(crate) type Target = fn(&[u8]);

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

/// Runs each target on each stored input.
pub(crate) fn replay(targets: &[(&str, Target)]) {
    for (name, target) in targets {
        let inputs = corpus(name);
        assert!(!inputs.is_empty(), "fuzz/corpus/{name} is empty");
        for input in &inputs {
            target(input);
        }
    }
}

/// Runs each target on random changes of the stored inputs: 50 times, or with `LONGBOAT_FUZZ_SECONDS` for that long. `pieces`
/// are texts with a meaning for the targets.
pub(crate) fn vary(targets: &[(&str, Target)], pieces: &[&str]) {
    let seconds = std::env::var("LONGBOAT_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let time = Duration::from_secs(seconds.unwrap_or(0));
    let mut random = SmallRng::seed_from_u64(if seconds.is_some() { rand::random() } else { 1 });
    for (name, target) in targets {
        let inputs = corpus(name);
        let start = Instant::now();
        let mut runs = 0_u64;
        while runs < 50 || start.elapsed() < time {
            let mut input = inputs.choose(&mut random).unwrap().clone();
            for _ in 0..random.random_range(1..8) {
                change(&mut input, &inputs, pieces, &mut random);
            }
            if seconds.is_some() {
                // The file keeps the input if the target does not return.
                fs::write(std::env::temp_dir().join(format!("longboat-fuzz-{name}")), &input).unwrap();
            }
            target(&input);
            runs += 1;
        }
        println!("{name}: {runs} runs");
    }
}

/// Makes one random change: sets, removes or repeats bytes, inserts one of `pieces`, or copies bytes of another input.
fn change(input: &mut Vec<u8>, inputs: &[Vec<u8>], pieces: &[&str], random: &mut SmallRng) {
    let at = random.random_range(0..=input.len());
    let until = random.random_range(at..=input.len().min(at + 64));
    match random.random_range(0..5) {
        0 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = random.random();
            }
        }
        1 => drop(input.drain(at..until)),
        2 => {
            let piece = input[at..until].to_vec();
            input.splice(at..at, piece);
        }
        3 => {
            let piece = pieces.choose(random).unwrap();
            input.splice(at..until.min(at + 8), piece.bytes());
        }
        _ => {
            let other = inputs.choose(random).unwrap();
            let from = random.random_range(0..=other.len());
            let to = random.random_range(from..=other.len().min(from + 256));
            input.splice(at..until, other[from..to].iter().copied());
        }
    }
}
