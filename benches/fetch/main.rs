//! The cost of a download, compared with `curl`, `hf download` and boto3: wall time, CPU, memory, and the transferred bytes
//! when the downloader is killed half-way and started again. All of them download from the same servers of this process, over
//! loopback.
//!
//! `cargo bench -p longboat-fetch` prints the table. `-- --files=100000` measures that many small files, and no large one.
//! `longboat fetch` is this program, started again as the role, or the binary that `LONGBOAT_BINARY` names.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement that cannot go on should stop"
)]

mod client;
mod fixture;
#[path = "../../crates/fetch/tests/servers/mod.rs"]
mod servers;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Args as _, FromArgMatches};
use client::{Client, Cost, MANY, clients};
use fixture::StoreFixture;
use longboat_fetch::Args;

// The same allocator as in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The first argument that makes this program a downloader.
const ROLE: &str = "fetch";

fn main() -> ExitCode {
    longboat_tls::install_default_provider();
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if arguments.first().is_some_and(|first| first == ROLE) {
        return longboat_fetch::runtime().unwrap().block_on(download(&arguments[1..]));
    }
    let words: Vec<_> = arguments.iter().filter_map(|argument| argument.to_str()).collect();
    let files = words.iter().find_map(|word| word.strip_prefix("--files="));
    let (size, files, rounds) = match files {
        Some(files) => (1 << 20, files.parse().unwrap(), 0),
        None if words.contains(&"--quick") => (256 << 20, 2000, 1),
        None => (2 << 30, 20_000, 3),
    };
    let only = words.iter().find(|word| !word.starts_with('-')).copied();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    // The servers answer on the threads of the runtime.
    let world = runtime.block_on(StoreFixture::start(size, files));
    measure(&world, rounds, only);
    ExitCode::SUCCESS
}

/// Runs the role like the binary.
async fn download(arguments: &[OsString]) -> ExitCode {
    let command = Args::augment_args(clap::Command::new(ROLE).no_binary_name(true));
    let matches = command.try_get_matches_from(arguments).unwrap();
    let args = Args::from_arg_matches(&matches).unwrap();
    match longboat_fetch::run(args, None).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(world: &StoreFixture, rounds: usize, only: Option<&str>) {
    let folder = folder();
    let clients = clients();
    let chosen = |client: &&Client| {
        let is_chosen = only.is_none_or(|only| client.name.contains(only));
        if is_chosen && !client.is_there() {
            println!("not measured: {}, which scripts/download-tools.sh fetches", client.name);
        }
        is_chosen && client.is_there()
    };
    let chosen: Vec<&Client> = clients.iter().filter(chosen).collect();
    if rounds > 0 {
        measure_large(world, rounds, &chosen, &folder);
    }
    println!("\n{} files of 2 KiB:\n", world.files());
    println!("| downloader | wall s | CPU s | peak MiB | requests |");
    println!("|---|---|---|---|---|");
    for client in MANY.iter().filter(|client| only.is_none_or(|only| client.name.contains(only))) {
        let to = fresh(&folder);
        let first = client.run(world, &to, None).unwrap();
        world.check_many(&to);
        println!("| {} | {} |", client.name, row(vec![first]));
        if client.resumes {
            let again = client.run(world, &to, None).unwrap();
            println!("| {}, again | {} |", client.name, row(vec![again]));
        }
    }
    let _ = std::fs::remove_dir_all(folder);
}

fn measure_large(world: &StoreFixture, rounds: usize, chosen: &[&Client], folder: &Path) {
    // The outer loop is over rounds, so that other load of the machine affects all clients.
    let mut costs = vec![Vec::new(); chosen.len()];
    for _ in 0..rounds {
        for (client, costs) in chosen.iter().zip(&mut costs) {
            let to = fresh(folder);
            costs.push(client.run(world, &to, None).unwrap());
            world.check(&to);
        }
    }
    println!("\n{} MiB in one file, medians of {rounds}, into {}:\n", world.size() >> 20, folder.display());
    println!("| downloader | wall s | CPU s | peak MiB | requests | bytes after kill -9, × size |");
    println!("|---|---|---|---|---|---|");
    for (client, costs) in chosen.iter().zip(costs) {
        let shares: Vec<String> = points(client)
            .into_iter()
            .map(|point| format!("{:.3} (at {point:.2})", killed(client, world, folder, point)))
            .collect();
        println!("| {} | {} | {} |", client.name, row(costs), shares.join(", "));
    }
    println!("\nMD5 of it in memory, on one thread: {:.2} s", world.floor_of_md5().as_secs_f64());
}

/// The shares of the size at which a downloader is killed: at half, and ours at random shares too.
fn points(client: &Client) -> Vec<f64> {
    let mut points = vec![0.5];
    if client.is_ours() {
        points.extend((0..3).map(|_| rand::random_range(0.05..0.95)));
    }
    points
}

/// Returns the transferred bytes as a multiple of the size, if the downloader is killed at this share and starts again.
fn killed(client: &Client, world: &StoreFixture, folder: &Path, point: f64) -> f64 {
    let to = fresh(folder);
    let before = world.sent();
    assert!(
        client.run(world, &to, Some(before + world.bytes(point))).is_none(),
        "{}: not killed",
        client.name
    );
    client.run(world, &to, None).unwrap();
    world.check(&to);
    world.share(world.sent() - before)
}

/// Formats the run with the median wall time, and the peak memory of all runs.
fn row(mut costs: Vec<Cost>) -> String {
    costs.sort_by_key(|cost| cost.wall);
    let peak = costs.iter().map(|cost| cost.peak).max().unwrap();
    let cost = &costs[costs.len() / 2];
    format!(
        "{:.2} | {:.2} | {} | {}",
        cost.wall.as_secs_f64(),
        cost.cpu.as_secs_f64(),
        peak >> 20,
        cost.requests
    )
}

/// The folder for models: in memory, so that the disk does not affect the results, or `FETCH_BENCH_FOLDER`.
fn folder() -> PathBuf {
    let parent = std::env::var_os("FETCH_BENCH_FOLDER").map_or_else(|| "/dev/shm".into(), PathBuf::from);
    parent.join(format!("longboat-bench-fetch-{}", std::process::id()))
}

fn fresh(folder: &Path) -> PathBuf {
    let _ = std::fs::remove_dir_all(folder);
    let to = folder.join("model");
    std::fs::create_dir_all(&to).unwrap();
    to
}
