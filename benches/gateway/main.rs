//! What a request costs in the gateway, with the picker in its process and beside it, and in Envoy. See benches/README.md.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement that cannot go on should stop")]
#![expect(clippy::cast_precision_loss, reason = "counts of a few thousand")]

#[path = "../../tests/picker/envoy.rs"]
mod envoy;
#[path = "../picker/load.rs"]
mod load;
mod process;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use self::{
    envoy::{Envoy, Port, free_port},
    load::{Ask, Http, Outcome},
    process::{Cluster, Process, Usage, until},
};

const ENGINES: u8 = 10;
const POLICY: &str = include_str!("../picker/policies/reference.yaml");

/// In each round, each load runs against each subject in turn. The table has medians, because other work on the machine slows down
/// some rounds.
const ROUNDS: usize = 5;

/// The requests under way at saturation.
const CLIENTS: usize = 64;

/// The number of routes for which the memory is measured.
const ROUTES: usize = 1000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A way of requests to the engines.
struct Subject {
    name: &'static str,
    url: String,
    /// The gateway, and the picker if that is another process.
    processes: Vec<u32>,
}

/// The results of one round.
#[derive(Default)]
struct Round {
    /// CPU milliseconds of a request at a fixed rate, and at saturation.
    cpu: [f64; 2],
    /// Percentiles 50 and 99 of the response times at the fixed rate, in milliseconds.
    latency: [f64; 2],
    /// Requests per second at saturation.
    rate: f64,
    /// CPU microseconds of a streamed event.
    event: f64,
    failed: usize,
}

#[tokio::main]
async fn main() {
    longboat_tls::install_default_provider();
    let seconds: u32 = if std::env::args().any(|argument| argument == "--quick") { 1 } else { 5 };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let port = free_port();
    let (_engines, addresses): (Vec<Process>, Vec<SocketAddr>) =
        (0..ENGINES).map(|number| process::engine(folder, number, port)).unzip();
    let cluster = Cluster::start(folder).await;
    let picker_address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    cluster.make_pool(&addresses, picker_address, POLICY).await;
    cluster.route("all", "/").await;
    let picker = process::picker(folder, picker_address, POLICY);
    let (inside, inside_url) = cluster.serve(folder, "inside", "gateway").await;
    let (outside, outside_url) = cluster.serve(folder, "outside", "pods").await;
    let program = root().join(".cache/bin/envoy");
    assert!(program.exists(), "no .cache/bin/envoy: scripts/tools.sh fetches it");
    let alone = Port { endpoints: addresses, ..Port::default() };
    let asking = Port { pickers: vec![picker_address], ..alone.clone() };
    let envoy = Envoy::start(&program, &[alone, asking]);
    let subject = |name, url, processes| Subject { name, url, processes };
    let subjects = [
        subject("gateway, picks itself", inside_url, vec![inside.id()]),
        subject("gateway, picker over ext_proc", outside_url, vec![outside.id(), picker.id()]),
        subject("Envoy, picker over ext_proc", envoy.url(1), vec![envoy.id(), picker.id()]),
        subject("Envoy alone", envoy.url(0), vec![envoy.id()]),
    ];
    let http = load::client();
    for subject in &subjects {
        until(subject.name, async || answers(&http, &subject.url).await.then_some(())).await;
        load::run(&http, &subject.url, SHORT, 200, 200).await;
    }
    table(&http, &subjects, seconds).await;
    routes(&cluster, folder, &http, &subjects[..2]).await;
}

/// A request whose answer is one token, so that the engine has nothing to do.
const SHORT: Ask = Ask { prompt: 1 << 10, tokens: 1, stream: false };

async fn answers(http: &Http, url: &str) -> bool {
    load::run(http, url, SHORT, 1, 1).await.failed == 0
}

async fn table(http: &Http, subjects: &[Subject], seconds: u32) {
    println!(
        "| way | idle, ms CPU/s | 500/s: CPU ms/request | P50 / P99 ms | saturated: CPU ms/request | requests/s for a core | requests/s here | a streamed event, µs CPU | failed |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut idle = Vec::new();
    for subject in subjects {
        let before = Usage::of(&subject.processes);
        tokio::time::sleep(Duration::from_secs(seconds.into())).await;
        idle.push(cpu_since(subject, before) / f64::from(seconds));
    }
    let mut rounds: Vec<Vec<Round>> = subjects.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for (subject, rounds) in subjects.iter().zip(&mut rounds) {
            rounds.push(round(http, subject, seconds).await);
        }
    }
    for ((subject, rounds), idle) in subjects.iter().zip(&rounds).zip(idle) {
        let of = |figure: &dyn Fn(&Round) -> f64| median(rounds.iter().map(figure).collect());
        let saturated = of(&|round| round.cpu[1]);
        println!(
            "| {} | {idle:.1} | {:.3} | {:.2} / {:.2} | {saturated:.3} | {:.0} | {:.0} | {:.1} | {} |",
            subject.name,
            of(&|round| round.cpu[0]),
            of(&|round| round.latency[0]),
            of(&|round| round.latency[1]),
            1000.0 / saturated,
            of(&|round| round.rate),
            of(&|round| round.event),
            rounds.iter().map(|round| round.failed).sum::<usize>(),
        );
    }
}

/// CPU milliseconds since an earlier reading.
fn cpu_since(subject: &Subject, before: Usage) -> f64 {
    Usage::of(&subject.processes).cpu.saturating_sub(before.cpu).as_secs_f64() * 1000.0
}

async fn round(http: &Http, subject: &Subject, seconds: u32) -> Round {
    let mut round = Round::default();
    let (before, count) = (Usage::of(&subject.processes), 500 * seconds as usize);
    let open = load::run(http, &subject.url, SHORT, 500, count).await;
    round.cpu[0] = cpu_since(subject, before) / count as f64;
    round.latency = [open.percentile(50), open.percentile(99)];

    let (before, start) = (Usage::of(&subject.processes), Instant::now());
    let (answered, failed) = saturate(http, &subject.url, Duration::from_secs(seconds.into())).await;
    round.rate = answered as f64 / start.elapsed().as_secs_f64();
    round.cpu[1] = cpu_since(subject, before) / (answered + failed) as f64;

    // The difference between long and short answers, so that all that is not of one event does not count.
    let stream = |tokens: u32| Ask { tokens, stream: true, ..SHORT };
    let count = 20 * seconds as usize;
    let mut streams: Vec<(f64, Outcome)> = Vec::new();
    for tokens in [4, 104] {
        let before = Usage::of(&subject.processes);
        let outcome = load::run(http, &subject.url, stream(tokens), 20, count).await;
        streams.push((cpu_since(subject, before), outcome));
    }
    round.event = (streams[1].0 - streams[0].0) * 1000.0 / (streams[1].1.events - streams[0].1.events) as f64;
    round.failed = open.failed + failed + streams[0].1.failed + streams[1].1.failed;
    round
}

/// Keeps [`CLIENTS`] requests under way. Returns how many were answered, and how many failed.
async fn saturate(http: &Http, url: &str, time: Duration) -> (usize, usize) {
    let end = Instant::now() + time;
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (http, url) = (http.clone(), url.to_owned());
        clients.spawn(async move {
            let (mut answered, mut failed) = (0, 0);
            while Instant::now() < end {
                let outcome = load::run(&http, &url, SHORT, 1, 1).await;
                answered += outcome.sent() - outcome.failed;
                failed += outcome.failed;
            }
            (answered, failed)
        });
    }
    clients.join_all().await.into_iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

/// Measures the memory with many routes, and the time until a new one serves.
async fn routes(cluster: &Cluster, folder: &Path, http: &Http, subjects: &[Subject]) {
    let memory = || subjects.iter().map(|subject| Usage::of(&subject.processes[..1])).collect::<Vec<_>>();
    let before = memory();
    for number in 0..ROUTES {
        cluster.route(&format!("route-{number}"), &format!("/route-{number}")).await;
    }
    for subject in subjects {
        let last = format!("{}/route-{}", subject.url, ROUTES - 1);
        until("the last route serves", async || answers(http, &last).await.then_some(())).await;
    }
    let shown = |usage: Usage| {
        format!("{} MiB, of which {} MiB are no pages of files", usage.resident >> 20, usage.anonymous >> 20)
    };
    for ((subject, before), after) in subjects.iter().zip(before).zip(memory()) {
        println!("{}: resident {}; with {ROUTES} routes {}", subject.name, shown(before), shown(after));
    }
    // The others have served all loads.
    let (fresh, url) = cluster.serve(folder, "fresh", "gateway").await;
    let last = format!("{url}/route-{}", ROUTES - 1);
    until("a new gateway serves", async || answers(http, &last).await.then_some(())).await;
    println!("a new one with {ROUTES} routes: resident {}", shown(Usage::of(&[fresh.id()])));
    let mut times = Vec::new();
    // Until the route is there, the engine gets a path that it does not have.
    for number in 0..20 {
        let (path, url) = (format!("/new-{number}"), &subjects[0].url);
        cluster.route(&path[1..], &path).await;
        let written = Instant::now();
        let new = format!("{url}{path}");
        until("the new route serves", async || answers(http, &new).await.then_some(())).await;
        times.push(written.elapsed().as_secs_f64() * 1000.0);
    }
    println!(
        "with {ROUTES} routes, a new one serves {:.1} ms after it is written (median of 20)",
        median(times)
    );
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
