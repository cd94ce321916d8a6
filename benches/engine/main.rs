//! Compares the CPU engine with llama.cpp on one model file with one thread each: tokens per CPU second, time to the first
//! token, and memory.
//!
//! `cargo bench -p longboat-engine --features llguidance --bench engine` prints the table; `scripts/llama-tools.sh` fetches llama.cpp.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement that cannot go on should stop"
)]
#![expect(clippy::cast_precision_loss, reason = "counts of a few thousand")]

mod server;

use std::{path::PathBuf, time::Duration};

use server::Server;

const MODEL: &str = "models/SmolLM2-135M-Instruct.Q4_1.gguf";
/// Tokens of the long prompt.
const PROMPT: usize = 512;
/// Tokens of the long answer.
const ANSWER: usize = 128;
/// Maximum tokens of a context, for both servers.
const CONTEXT: usize = 2048;
/// Bytes of one token in the engine's cache: keys and values of 30 layers, 3 heads of 64 numbers each, of 4 bytes.
const TOKEN_BYTES: usize = 2 * 30 * 3 * 64 * 4;

/// The measurements of one server in one round.
struct Round {
    /// Prompt tokens per CPU second.
    prefill: f64,
    /// Tokens of an answer per CPU second.
    decode: f64,
    first_token: Duration,
}

fn main() {
    let rounds = if std::env::args().any(|argument| argument == "--quick") { 3 } else { 9 };
    let cache = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.cache"));
    let (model, python) = (cache.join(MODEL), cache.join("llama/bin/python3"));
    assert!(model.is_file(), "the model is missing: scripts/tools.sh fetches it");
    assert!(python.is_file(), "llama.cpp is missing: scripts/llama-tools.sh fetches it");
    let servers = [Server::engine(&model), Server::llama(&python, &model)];
    for server in &servers {
        // A first round without measurement, because reading the model file for the first time costs additional time.
        round(server, 0);
    }
    let mut all: [Vec<Round>; 2] = [Vec::new(), Vec::new()];
    for number in 1..=rounds {
        // The servers take turns, so that other load of the machine affects both.
        for (server, rounds) in servers.iter().zip(&mut all) {
            let found = round(server, number);
            let (name, Round { prefill, decode, .. }) = (server.name, &found);
            eprintln!("round {number} of {name}: prefill {prefill:.0}, decode {decode:.0} tokens/CPU s");
            rounds.push(found);
        }
    }
    println!(
        "| medians of {rounds} | prefill tokens/CPU s | decode tokens/CPU s | first token of {PROMPT} ms | RSS MiB (peak) |"
    );
    println!("|---|---|---|---|---|");
    let mut medians = Vec::new();
    for (server, rounds) in servers.iter().zip(&all) {
        let found = [
            median(rounds.iter().map(|round| round.prefill)),
            median(rounds.iter().map(|round| round.decode)),
            median(rounds.iter().map(|round| round.first_token.as_secs_f64() * 1000.0)),
        ];
        println!(
            "| {} | {:.0} | {:.0} | {:.0} | {} ({}) |",
            server.name,
            found[0],
            found[1],
            found[2],
            server.status("VmRSS") >> 10,
            server.status("VmHWM") >> 10,
        );
        medians.push(found);
    }
    println!(
        "| ratio | {:.2} | {:.2} | {:.2} | |",
        medians[0][0] / medians[1][0],
        medians[0][1] / medians[1][1],
        medians[0][2] / medians[1][2]
    );
    let weights = model.metadata().unwrap().len() >> 20;
    let cache = (CONTEXT * TOKEN_BYTES) >> 20;
    // 100 MB are 95 MiB.
    println!(
        "\nThe engine may have {} MiB: {weights} of weights, {cache} of cache, and 95.",
        weights + cache as u64 + 95
    );
}

/// Measures prefill and decode with prompts that no earlier round used.
fn round(server: &Server, number: usize) -> Round {
    let prompt = |length: usize| -> Vec<usize> {
        (0..length).map(|at| 1000 + (at * 7 + number * 131) % 40000).collect()
    };
    let (long, first_token) = server.answer(&prompt(PROMPT), 1);
    let (short, _) = server.answer(&prompt(16), 1);
    let (answer, _) = server.answer(&prompt(17), ANSWER + 1);
    Round {
        prefill: (PROMPT - 16) as f64 / long.saturating_sub(short).as_secs_f64(),
        decode: ANSWER as f64 / answer.saturating_sub(short).as_secs_f64(),
        first_token,
    }
}

fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
