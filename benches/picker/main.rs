//! The cost of the picker behind a real Envoy, compared with a bare tonic server that picks nothing. See benches/README.md.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement that cannot go on should stop")]
#![expect(clippy::cast_precision_loss, reason = "counts of a few thousand")]

#[path = "../../tests/picker/envoy.rs"]
mod envoy;
mod floor;
mod load;
mod pickers;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::{
    envoy::{Envoy, Port},
    load::{Ask, Http, Outcome},
    pickers::Measured,
};

// The same allocator as in the binary, because allocation is a large part of the cost.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ENDPOINTS: u8 = 10;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("picker") => pickers::run_picker(),
        Some("floor") => floor::run(arguments[1..].to_vec()),
        _ => {
            let (flags, rows): (Vec<String>, _) =
                arguments.into_iter().partition(|argument| argument.starts_with("--"));
            let name = flags.iter().find_map(|flag| flag.strip_prefix("--policy=")).unwrap_or("reference");
            let (_, policy) = POLICIES
                .iter()
                .find(|(known, _)| *known == name)
                .expect("--policy is one of reference, llm-d and longboat");
            measure(flags.iter().any(|flag| flag == "--quick"), policy, &Wanted(rows));
        }
    }
}

/// The rows to measure, by parts of their names. Empty for all rows.
struct Wanted(Vec<String>);

impl Wanted {
    fn has(&self, row: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|part| row.contains(part.as_str()))
    }
}

/// Returns the path of Envoy, which scripts/tools.sh fetches.
fn program() -> PathBuf {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/bin/envoy");
    assert!(program.exists(), "no .cache/bin/envoy: scripts/tools.sh fetches it");
    program
}

/// The configurations that can be measured.
const POLICIES: [(&str, &str); 3] = [
    ("reference", include_str!("policies/reference.yaml")),
    ("llm-d", include_str!("policies/llm-d.yaml")),
    ("longboat", include_str!("policies/longboat.yaml")),
];

fn measure(quick: bool, policy: &str, wanted: &Wanted) {
    longboat_tls::install_default_provider();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stop = CancellationToken::new();
        let _stop = stop.clone().drop_guard();
        let mut endpoints = Vec::new();
        for number in 0..ENDPOINTS {
            endpoints.push(engine(number, "0ms", &stop).await);
        }
        let folder = tempfile::tempdir().unwrap();
        let list = file(folder.path().join("ten.json"), &endpoints, 1);
        bench(&list, &endpoints, policy).table(if quick { 1 } else { 5 }, wanted).await;
        if wanted.has("a streamed chunk") {
            // Slow engines, because each token has its own chunk only if the next one comes later.
            let mut slow = Vec::new();
            for number in 0..ENDPOINTS {
                slow.push(engine(100 + number, "20ms", &stop).await);
            }
            let list = file(folder.path().join("slow.json"), &slow, 1);
            bench(&list, &slow, policy).chunks(if quick { 1 } else { 5 }).await;
        }
        if wanted.has("16 MB bodies") {
            large(&endpoints, &list, policy, if quick { 4 } else { 20 }).await;
        }
        if wanted.has("idle") {
            // As many as in the table, and more.
            for names in [1, 10, 20] {
                let list = file(folder.path().join("idle.json"), &endpoints, names);
                idle(&list, &endpoints, policy, names, if quick { 5 } else { 20 }).await;
            }
        }
    });
}

/// Starts an Envoy, a picker and a floor (a server that picks nothing) for these endpoints.
fn bench(list: &Path, endpoints: &[SocketAddr], policy: &str) -> Bench {
    let (picker, floor) = (Measured::picker(list, policy), Measured::floor(endpoints));
    let port = |pickers: &[SocketAddr]| Port {
        pickers: pickers.to_vec(),
        endpoints: endpoints.to_vec(),
        ..Port::default()
    };
    let envoy = Envoy::start(&program(), &[port(&[]), port(&[floor.address]), port(&[picker.address])]);
    let urls = [0, 1, 2].map(|port| envoy.url(port));
    Bench { http: load::client(), urls, picker, floor, _envoy: envoy }
}

/// Starts a simulated engine whose only latency is that of each token after the first.
async fn engine(number: u8, token: &str, stop: &CancellationToken) -> SocketAddr {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 4, number + 1], 0))).await.unwrap();
    let (address, host) = (listener.local_addr().unwrap(), format!("127.0.4.{}", number + 1));
    let flags = [
        "m",
        "--host",
        &host,
        "--max-model-len",
        "8000000",
        "--max-num-seqs",
        "256",
        "--kv-cache-size",
        "1000000",
        "--inter-token-latency",
        token,
    ];
    let args = longboat_sim::Args::simulator(&flags).unwrap();
    let stop = stop.clone();
    tokio::spawn(async move { longboat_sim::serve(args, listener, stop).await });
    address
}

/// Writes a discovery file that lists each endpoint under `names` names.
fn file(path: PathBuf, endpoints: &[SocketAddr], names: usize) -> PathBuf {
    let all = (0..names).flat_map(|name| endpoints.iter().map(move |endpoint| (name, endpoint)));
    let list: Vec<_> = all
        .map(|(name, endpoint)| {
            json!({"name": format!("e{name}-{endpoint}"), "address": endpoint.ip(), "port": endpoint.port().to_string()})
        })
        .collect();
    std::fs::write(&path, json!({"endpoints": list}).to_string()).unwrap();
    path
}

struct Bench {
    http: Http,
    /// The URLs without a picker, with the floor, and with the picker.
    urls: [String; 3],
    picker: Measured,
    floor: Measured,
    _envoy: Envoy,
}

impl Bench {
    /// Runs the same load without a picker, with the floor, and with the picker.
    async fn thrice(&self, ask: Ask, rate: u32, count: usize) -> Round {
        let [plain, floor, picker] = &self.urls;
        let plain = load::run(&self.http, plain, ask, rate, count).await;
        let before = self.floor.cpu();
        let floor = load::run(&self.http, floor, ask, rate, count).await;
        let of_floor = self.floor.cpu().all.saturating_sub(before.all);
        let (before, began) = (self.picker.cpu(), Instant::now());
        let picker = load::run(&self.http, picker, ask, rate, count).await;
        let (now, took) = (self.picker.cpu(), began.elapsed());
        let of_picker = now.all.saturating_sub(before.all);
        let of_streams = now.streams.saturating_sub(before.streams);
        for outcome in [&plain, &floor, &picker] {
            assert!(
                outcome.failed * 50 < outcome.sent(),
                "{} of {} requests failed",
                outcome.failed,
                outcome.sent()
            );
        }
        let each = |cpu: Duration| cpu.as_secs_f64() * 1000.0 / count as f64;
        let scraping = (of_picker.saturating_sub(of_streams)).as_secs_f64() * 1000.0 / took.as_secs_f64();
        Round {
            outcomes: [plain, floor, picker],
            cpu: [each(of_floor), each(of_picker), each(of_streams)],
            scraping,
        }
    }

    async fn table(&self, seconds: u32, wanted: &Wanted) {
        println!(
            "| load | floor: CPU ms/request | picker: CPU ms/request | without scraping | × floor, with / without scraping | scraping, ms/s | floor adds P50 / P99 ms | picker adds P50 / P99 ms | failed |"
        );
        println!("|---|---|---|---|---|---|---|---|---|");
        let small = Ask { prompt: 1 << 10, tokens: 8, stream: false };
        self.thrice(small, 200, 200).await;
        for (name, ask, rate) in [
            ("1 KB, 500/s", small, 500),
            ("1 KB, 50/s", small, 50),
            ("400 KB, 20/s", Ask { prompt: 400 << 10, ..small }, 20),
            ("1.6 MB, 5/s", Ask { prompt: 1600 << 10, ..small }, 5),
        ] {
            if !wanted.has(name) {
                continue;
            }
            let mut rounds = Vec::new();
            for _ in 0..ROUNDS {
                rounds.push(self.thrice(ask, rate, (rate * seconds) as usize).await);
            }
            let of = |figure: &dyn Fn(&Round) -> f64| median(rounds.iter().map(figure).collect());
            let cpu = [0, 1, 2].map(|who| of(&|round| round.cpu[who]));
            let times = [1, 2].map(|who| of(&|round| round.cpu[who] / round.cpu[0]));
            let added = |who: usize, percent: usize| of(&|round| round.added(who, percent));
            let sent: usize = rounds.iter().map(|round| round.outcomes[2].sent()).sum();
            let failed: usize = rounds.iter().map(|round| round.outcomes[2].failed).sum();
            println!(
                "| {name} | {:.3} | {:.3} | {:.3} | {:.2} / {:.2} | {:.1} | {:.2} / {:.2} | {:.2} / {:.2} | {failed} of {sent} |",
                cpu[0],
                cpu[1],
                cpu[2],
                times[0],
                times[1],
                of(&|round| round.scraping),
                added(1, 50),
                added(1, 99),
                added(2, 50),
                added(2, 99),
            );
        }
    }

    /// Prints the cost of a streamed chunk: the difference between long and short answers. Long answers take longer, so the
    /// difference of all threads would have more scraping in it: only the threads of the streams count.
    async fn chunks(&self, seconds: u32) {
        let ask = Ask { prompt: 1 << 10, tokens: 4, stream: true };
        let count = 20 * seconds as usize;
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            let few = self.thrice(ask, 20, count).await;
            let many = self.thrice(Ask { tokens: 104, ..ask }, 20, count).await;
            let chunk = |who: usize, cpu: usize| {
                let events = many.outcomes[who].events - few.outcomes[who].events;
                (many.cpu[cpu] - few.cpu[cpu]) * 1000.0 * count as f64 / events as f64
            };
            rounds.push([chunk(1, 0), chunk(2, 2)]);
        }
        let of = |figure: &dyn Fn(&[f64; 2]) -> f64| median(rounds.iter().map(figure).collect());
        let (floor, picker) = (of(&|round| round[0]), of(&|round| round[1]));
        let times = of(&|round| round[1] / round[0]);
        println!("| a streamed chunk | {floor:.1} µs | | {picker:.1} µs | – / {times:.2} | | | | |");
    }
}

/// The number of rounds. In each round, each load runs with each server in turn. The table has medians, because other work on
/// the machine slows down some rounds.
const ROUNDS: usize = 5;

/// The result of one load without a picker, with the floor, and with the picker.
struct Round {
    outcomes: [Outcome; 3],
    /// The CPU milliseconds per request of the floor, of the picker, and of the picker's threads that serve streams.
    cpu: [f64; 3],
    /// The CPU milliseconds per second of the picker's other threads.
    scraping: f64,
}

impl Round {
    /// Returns a percentile of the latency minus the percentile without a picker.
    fn added(&self, who: usize, percent: usize) -> f64 {
        self.outcomes[who].percentile(percent) - self.outcomes[0].percentile(percent)
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Measures the memory with long request bodies, two at a time.
async fn large(endpoints: &[SocketAddr], list: &Path, policy: &str, count: usize) {
    let picker = Measured::picker(list, policy);
    let port = Port { pickers: vec![picker.address], endpoints: endpoints.to_vec(), ..Port::default() };
    let envoy = Envoy::start(&program(), &[port]);
    let (http, before) = (load::client(), picker.memory());
    let ask = Ask { prompt: 16 << 20, tokens: 1, stream: false };
    let mut failed = 0;
    for _ in 0..count / 2 {
        let url = envoy.url(0);
        let (one, two) = tokio::join!(load::run(&http, &url, ask, 1, 1), load::run(&http, &url, ask, 1, 1));
        failed += one.failed + two.failed;
    }
    let after = picker.memory();
    let mib = |bytes: u64| bytes >> 20;
    println!(
        "16 MB bodies, two at a time: resident {} MiB before, {} MiB at most, {} MiB after {count} ({failed} failed)",
        mib(before.now),
        mib(after.peak),
        mib(after.now)
    );
}

/// Measures the CPU usage without requests. The discovery file lists each endpoint under `names` names.
async fn idle(list: &Path, endpoints: &[SocketAddr], policy: &str, names: usize, seconds: u64) {
    let page = load::client().get(format!("http://{}/metrics", endpoints[0]).parse().unwrap()).await.unwrap();
    let bytes = http_body_util::BodyExt::collect(page.into_body()).await.unwrap().to_bytes().len();
    let picker = Measured::picker(list, policy);
    let before = picker.cpu();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let cores = picker.cpu().all.saturating_sub(before.all).as_secs_f64() / seconds as f64;
    let count = names * endpoints.len();
    // Twenty times a second.
    let each = cores * 1e6 / (count * 20) as f64;
    println!(
        "idle, {count} endpoints every 50 ms, pages of {} KB: {cores:.3} core, {each:.0} µs for each page",
        bytes / 1000
    );
}
