//! The cost of the routing sidecar between a client and two engines that compute nothing: CPU per request, and added latency.
//! The cases are those in which the reference was measured.
//!
//! `cargo bench -p longboat-sidecar` prints the table. The sidecar is this program, started again with the role's own
//! runtime, or the binary that `LONGBOAT_BINARY` names.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement that cannot go on should stop"
)]

mod engine;
mod load;
mod process;

use std::{ffi::OsString, process::ExitCode, time::Duration};

use clap::{Args as _, FromArgMatches};
use engine::Engine;
use load::{Load, Outcome};
use longboat_sidecar::Args;
use process::Sidecar;
use tokio_util::sync::CancellationToken;

// The same allocator as in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The first argument that makes this program a sidecar.
const ROLE: &str = "sidecar";

/// A kind of request, and the reference's result.
struct Case {
    name: &'static str,
    /// Bytes of the prompt.
    prompt: usize,
    /// Whether the answer is a stream.
    stream: bool,
    /// Whether another engine computes the prompt.
    legs: bool,
    /// Requests per second.
    rate: u32,
    /// CPU milliseconds per request of the reference.
    reference: f64,
}

#[expect(clippy::approx_constant, reason = "3.14 ms were measured")]
const CASES: [Case; 9] = [
    case("passed through, 1 KB", 1000, false, false, 200, 0.63),
    case("passed through, 1 KB", 1000, false, false, 500, 0.55),
    case("passed through, 50 events", 1000, true, false, 50, 3.14),
    case("passed through, 400 KB", 400_000, false, false, 5, 2.54),
    case("passed through, 10 MB", 10_000_000, false, false, 2, 9.5),
    case("two legs, 1 KB", 1000, false, true, 200, 1.35),
    case("two legs, 50 events", 1000, true, true, 50, 4.68),
    case("two legs, 400 KB", 400_000, false, true, 5, 14.3),
    case("two legs, 10 MB", 10_000_000, false, true, 2, 129.0),
];

const fn case(
    name: &'static str,
    prompt: usize,
    stream: bool,
    legs: bool,
    rate: u32,
    reference: f64,
) -> Case {
    Case { name, prompt, stream, legs, rate, reference }
}

fn main() -> ExitCode {
    longboat_tls::install_default_provider();
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if arguments.first().is_some_and(|first| first == ROLE) {
        return sidecar(&arguments[1..]);
    }
    let words: Vec<_> = arguments.iter().filter_map(|argument| argument.to_str()).collect();
    let seconds = if words.contains(&"--quick") { 3 } else { 10 };
    let only = words.iter().find(|word| !word.starts_with('-'));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(measure(Duration::from_secs(seconds), only.copied()));
    ExitCode::SUCCESS
}

/// Runs the role like the binary.
fn sidecar(arguments: &[OsString]) -> ExitCode {
    let command = Args::augment_args(clap::Command::new(ROLE).no_binary_name(true));
    let matches = command.try_get_matches_from(arguments).unwrap();
    let mut args = Args::from_arg_matches(&matches).unwrap();
    args.address = Some([127, 0, 0, 1].into());
    let runtime = longboat_sidecar::runtime(&args).unwrap();
    match runtime.block_on(longboat_sidecar::run(args, CancellationToken::new())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(time: Duration, only: Option<&str>) {
    let (prefill, decode) = (Engine::start().await, Engine::start().await);
    let sidecar = Sidecar::start(decode.address.port()).await;
    println!("| case | CPU ms/request | reference | direct p50 / p99 ms | sidecar p50 / p99 ms | peak MiB |");
    println!("|---|---|---|---|---|---|");
    for case in CASES.iter().filter(|case| only.is_none_or(|only| case.name.contains(only))) {
        let direct = Load::new(decode.address, case.prompt, case.stream, None);
        let prefiller = case.legs.then_some(prefill.address);
        let through = Load::new(sidecar.address, case.prompt, case.stream, prefiller);
        let straight = direct.run(case.rate, time).await;
        through.run(case.rate, Duration::from_secs(2)).await;
        let (before, asked) = (sidecar.cpu(), prefill.requests());
        let passed = through.run(case.rate, time).await;
        let cpu = sidecar.cpu().saturating_sub(before);
        let legs = prefill.requests() - asked;
        assert_eq!(
            legs,
            if case.legs { passed.sent() } else { 0 },
            "{}: not the way that is measured",
            case.name
        );
        println!(
            "| {}, {}/s | {:.3} | {} | {} | {} | {} |",
            case.name,
            case.rate,
            cpu.as_secs_f64() * 1000.0 / f64::from(u32::try_from(passed.sent()).unwrap()),
            case.reference,
            percentiles(&straight),
            percentiles(&passed),
            sidecar.peak() >> 20,
        );
    }
    let before = sidecar.cpu();
    tokio::time::sleep(time).await;
    let idle = sidecar.cpu().saturating_sub(before);
    println!("\nidle: {:.3} ms CPU a second", idle.as_secs_f64() * 1000.0 / time.as_secs_f64());
}

fn percentiles(outcome: &Outcome) -> String {
    format!("{:.2} / {:.2}", outcome.percentile(50), outcome.percentile(99))
}
