//! Roles: long-running programs for machines.

use std::{ffi::OsStr, path::Path};

use anyhow::{Context, bail};
use longboat_sim::Args as SimArgs;
use tokio_util::sync::CancellationToken;

/// Program names that choose a role (`longboat_node` links the executable under them).
const PROGRAMS: [(&str, &str); 5] = [
    ("vllm", "vllm"),
    ("epp", "epp"),
    ("pd-sidecar", "sidecar"),
    ("storage-initializer", "fetch"),
    ("llm-d-inference-sim", "sim"),
];

/// The role of an executable started under this name.
pub(crate) fn of_program(program: &OsStr) -> Option<&'static str> {
    let name = Path::new(program).file_name()?.to_str()?;
    PROGRAMS.iter().find(|(program, _)| *program == name).map(|(_, role)| *role)
}

/// `vllm serve …`, and the few other things that start scripts ask of `vllm`.
pub(crate) async fn vllm(arguments: Vec<String>, shutdown: CancellationToken) -> anyhow::Result<()> {
    match arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        Some(("serve", rest)) => simulate(SimArgs::vllm(&on_pod_address(rest))?, shutdown).await,
        Some(("--version" | "-v", _)) => {
            crate::printer::line(longboat_sim::VERSION);
            Ok(())
        }
        Some((other, _)) => bail!("the simulator stands in for `vllm serve` only, not for `vllm {other}`"),
        None => bail!("expected `vllm serve MODEL`"),
    }
}

/// The reference's simulator.
pub(crate) async fn sim(arguments: Vec<String>, shutdown: CancellationToken) -> anyhow::Result<()> {
    simulate(SimArgs::simulator(&on_pod_address(&arguments))?, shutdown).await
}

/// The routing sidecar of a decode pod.
pub(crate) async fn sidecar(
    mut args: longboat_sidecar::Args,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    args.address = pod_address()
        .map(|address| address.parse().with_context(|| format!("LONGBOAT_POD_IP: `{address}`")))
        .transpose()?;
    Ok(longboat_sidecar::run(args, shutdown).await?)
}

async fn simulate(args: SimArgs, shutdown: CancellationToken) -> anyhow::Result<()> {
    longboat_sim::run(args, shutdown).await.context("the simulator cannot serve")
}

/// On a local node each pod has its own loopback address, which its servers must use instead of all addresses.
fn on_pod_address(arguments: &[String]) -> Vec<String> {
    let host = pod_address().map(|address| ["--host".to_owned(), address]).into_iter().flatten();
    arguments.iter().cloned().chain(host).collect()
}

fn pod_address() -> Option<String> {
    std::env::var("LONGBOAT_POD_IP").ok().filter(|address| !address.is_empty())
}
