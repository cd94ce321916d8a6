//! The cost of the controller on a real API server, by the number of services: wall time, CPU, memory and requests by kind;
//! also for an idle cluster, for one more service and for a restart. The floor for comparison is a plain client that writes the
//! same objects.
//!
//! `cargo bench -p longboat --bench scale -- 100 500 1000` prints the table.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a measurement that cannot go on should stop"
)]

#[path = "../../tests/cluster/api.rs"]
#[expect(dead_code, reason = "shared with the cluster tier")]
mod api;
#[path = "../../tests/cluster/binary.rs"]
mod binary;
#[path = "../../tests/cluster/cluster.rs"]
#[expect(dead_code, reason = "shared with the cluster tier")]
mod cluster;
#[path = "../../tests/cluster/definitions.rs"]
#[expect(dead_code, reason = "shared with the cluster tier")]
mod definitions;
mod floor;
#[path = "../../tests/cluster/log.rs"]
#[expect(dead_code, reason = "shared with the cluster tier")]
mod log;
#[path = "../../tests/cluster/process.rs"]
#[expect(dead_code, reason = "shared with the cluster tier")]
mod process;
#[path = "../../tests/local/program.rs"]
#[expect(dead_code, reason = "shared with the tests of local mode")]
mod program;
#[path = "../../tests/cluster/server.rs"]
#[expect(dead_code, reason = "shared with the cluster tier")]
mod server;
mod services;
#[path = "../../tests/local/tools.rs"]
#[expect(dead_code, reason = "shared with the tests of local mode")]
mod tools;
#[path = "../../tests/local/wait.rs"]
mod wait;
mod written;

use std::time::{Duration, Instant};

use cluster::ExclusiveCluster;
use jiff::Timestamp;
use log::Log;
use process::Process;
use written::Written;

/// Services that are created one by one at the end.
const ONE_MORE: usize = 10;
/// Duration of the idle measurement.
const IDLE: Duration = Duration::from_mins(1);

fn main() {
    let mut sizes: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![100];
    }
    let Some(cluster) = ExclusiveCluster::take() else { panic!("the cluster tier's tools are missing") };
    let mut controller = Process::take_over(&cluster, |_, _| {});
    let log = Log::new(&cluster);
    services::prepare(&cluster.server.api);

    println!(
        "| services | wall s (with events) | CPU ms/service | RSS MiB (peak) | writes/service | of them events | reads/service |"
    );
    println!("|---|---|---|---|---|---|---|");
    let mut there = 0;
    let (mut wall, mut last) = (Duration::ZERO, 0..0);
    for &size in &sizes {
        let (cpu, start, mark) = (controller.cpu(), Timestamp::now(), log.mark());
        services::create(&cluster.server.api, there..size);
        log.rest();
        services::check(&cluster.server.api, size);
        // Server, controller and this process share a clock.
        let written = Written::since(&log, mark);
        wall = written.apart.duration_since(start).unsigned_abs();
        let new = size - there;
        let counted = log.since(mark);
        println!(
            "| {size} | {:.1} ({:.1}) | {:.1} | {} ({}) | {:.2} | {:.2} | {:.2} |",
            wall.as_secs_f64(),
            written.all.duration_since(start).unsigned_abs().as_secs_f64(),
            per(controller.cpu().saturating_sub(cpu), new),
            controller.status("VmRSS") / 1024,
            controller.status("VmHWM") / 1024,
            ratio(counted.writes(), new),
            ratio(written.events, new),
            ratio(counted.reads(), new),
        );
        println!("\n{size}: {counted}\n");
        last = there..size;
        there = size;
    }

    let (cpu, mark) = (controller.cpu(), log.mark());
    std::thread::sleep(IDLE);
    let counted = log.since(mark);
    println!(
        "idle {} s: {:.0} ms CPU, {} writes",
        IDLE.as_secs(),
        per(controller.cpu().saturating_sub(cpu), 1),
        counted.writes()
    );

    let (cpu, mark) = (controller.cpu(), log.mark());
    let mut latencies: Vec<Duration> = (there..there + ONE_MORE)
        .map(|number| services::create_and_wait(&cluster.server.api, number))
        .collect();
    log.rest();
    latencies.sort_unstable();
    let counted = log.since(mark);
    println!(
        "one more among {there}: {:.1} ms CPU, {:.1} writes, p50 {:.1} ms and at most {:.1} ms until all children are there",
        per(controller.cpu().saturating_sub(cpu), ONE_MORE),
        ratio(counted.writes(), ONE_MORE),
        latencies[ONE_MORE / 2].as_secs_f64() * 1000.0,
        latencies[ONE_MORE - 1].as_secs_f64() * 1000.0,
    );

    for _ in 0..2 {
        let mark = log.mark();
        let start = Instant::now();
        controller.restart();
        let ready = start.elapsed();
        log.rest();
        let counted = log.since(mark);
        println!(
            "restart: ready after {:.1} s, {:.2} s CPU, {} MiB peak, {} writes; {counted}",
            ready.as_secs_f64(),
            per(controller.cpu(), 1) / 1000.0,
            controller.status("VmHWM") / 1024,
            counted.writes(),
        );
    }

    controller.pause();
    let administrator = &cluster.server.api;
    let controllers = floor::controller(&cluster.server);
    floor::without_webhooks(administrator);
    let ours = latencies[ONE_MORE / 2];
    for (who, place, api) in
        [("an administrator", "floor", administrator), ("the controller's account", "peer", &controllers)]
    {
        let places @ [place, with_services, with_all] =
            &["-", "-own-", "-all-"].map(|end| format!("{place}{end}"));
        for place in places {
            floor::prepare(administrator, place);
        }
        let one_more =
            (there..there + ONE_MORE).map(|number| floor::children(api, &(number..number + 1), place));
        let mut in_turn: Vec<Duration> = one_more.map(|children| floor::write_in_turn(&children)).collect();
        in_turn.sort_unstable();
        let own = in_turn[ONE_MORE / 2];
        println!(
            "floor, written as {who}: one service's children one after another p50 {:.1} ms, which the controller's last child is \
             {:.1} ms above",
            per(own, 1),
            per(ours, 1) - per(own, 1),
        );
        let children = floor::children(api, &last, place);
        let owned = |place| {
            let mut all = floor::services(administrator, &last, place);
            all.extend(floor::children(api, &last, place));
            all
        };
        let [beside, then] = floor::beside(api, &last, with_all);
        let mut all = owned(with_all);
        all.extend(beside);
        for (what, writes) in [
            ("the children", vec![children]),
            ("services and children", vec![owned(with_services)]),
            ("all that is written but events", vec![all, then]),
        ] {
            let floor: Duration = writes.iter().map(|writes| floor::write(writes)).sum();
            println!(
                "floor, written as {who}: {what}, {} writes in {:.1} s, and the last batch took {:.2} times as long",
                writes.iter().map(Vec::len).sum::<usize>(),
                floor.as_secs_f64(),
                wall.as_secs_f64() / floor.as_secs_f64(),
            );
        }
    }
}

/// Milliseconds per item.
fn per(time: Duration, number: usize) -> f64 {
    time.as_secs_f64() * 1000.0 / number_of(number)
}

fn ratio(count: usize, number: usize) -> f64 {
    number_of(count) / number_of(number)
}

fn number_of(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap())
}
