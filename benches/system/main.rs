//! Measures the built binary end to end. See benches/README.md.
#![expect(clippy::print_stdout, reason = "the table is the output")]
#![expect(clippy::cast_precision_loss, reason = "counts of a few thousand")]

mod load;
mod process;

use std::{
    io::Read,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};

use self::{
    load::Load,
    process::{Tree, UpProcess},
};

/// Returns the path of this build's binary, or of the one that `LONGBOAT_BINARY` names: that compares two builds under the same
/// load.
fn binary() -> String {
    std::env::var("LONGBOAT_BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_longboat").to_owned())
}

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn main() -> anyhow::Result<()> {
    longboat_tls::install_default_provider();
    let quick = std::env::args().any(|argument| argument == "--quick");
    first_token(if quick { 3 } else { 9 })?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        memory().await?;
        added_latency(Duration::from_secs(if quick { 2 } else { 10 })).await
    })
}

fn first_token(runs: usize) -> anyhow::Result<()> {
    let mut times = Vec::new();
    for _ in 0..runs {
        let start = Instant::now();
        let mut child = Command::new(binary())
            .args([
                "up",
                "examples/single-node/service.yaml",
                "--port",
                "0",
                "--prompt",
                "Why is the sea salty?",
                "--once",
                "--engine",
                "sim",
            ])
            .current_dir(ROOT)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut out = child.stdout.take().context("stdout is piped")?;
        let mut byte = [0];
        out.read_exact(&mut byte).context("no token came")?;
        times.push(start.elapsed());
        let mut rest = Vec::new();
        out.read_to_end(&mut rest)?;
        ensure!(child.wait()?.success(), "`up --once` failed");
    }
    times.sort_unstable();
    let seconds = |time: Duration| time.as_secs_f64();
    println!(
        "first token: {:.2} s median of {runs} (min {:.2}, max {:.2})",
        seconds(times[runs / 2]),
        seconds(times[0]),
        seconds(times[runs - 1])
    );
    Ok(())
}

async fn memory() -> anyhow::Result<()> {
    let world = UpProcess::start("examples/single-node/service.yaml").await?;
    let load = Load::new(vec![world.url.clone()], &world.model);
    for _ in 0..10 {
        load.record_once().await?;
    }
    let tree = Tree::of(world.pid())?;
    println!(
        "memory while serving: {} MB resident, {} MB proportional",
        tree.resident() >> 20,
        tree.proportional() >> 20
    );
    for process in &tree.processes {
        println!("  {:>4} MB  {}", process.proportional >> 20, process.name);
    }
    world.stop().await
}

async fn added_latency(time: Duration) -> anyhow::Result<()> {
    let world = UpProcess::start("benches/system/ten.yaml").await?;
    let replicas = world.replicas().await?;
    ensure!(replicas.len() == 10, "expected 10 replicas, found {}", replicas.len());
    let (direct, through) =
        (Load::new(replicas, &world.model), Load::new(vec![world.url.clone()], &world.model));
    for load in [&direct, &through] {
        load.run(100, Duration::from_secs(1)).await?;
    }
    println!("added latency, 10 endpoints, 1 KB requests (P50 / P99, ms):");
    for rate in [200, 500] {
        let straight = direct.run(rate, time).await?;
        let before = Tree::of(world.pid())?;
        let routed = through.run(rate, time).await?;
        let after = Tree::of(world.pid())?;
        let added = |percent| routed.percentile(percent) - straight.percentile(percent);
        println!(
            "  {rate}/s: direct {:.2} / {:.2}, routed {:.2} / {:.2}, added {:.2} / {:.2}, failed {} of {}",
            straight.percentile(50),
            straight.percentile(99),
            routed.percentile(50),
            routed.percentile(99),
            added(50),
            added(99),
            routed.failed,
            routed.sent(),
        );
        for (name, cpu) in after.cpu_since(&before) {
            println!(
                "    {:>6.2} ms CPU a request  {name}",
                cpu.as_secs_f64() * 1000.0 / routed.sent() as f64
            );
        }
    }
    world.stop().await
}
