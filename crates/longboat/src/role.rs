//! Roles: long-running programs for machines.

use std::{ffi::OsStr, os::unix::process::CommandExt, path::Path, process::Command};

use anyhow::{Context, bail};
use longboat_accept::POD_ADDRESS_VARIABLE;
use longboat_sim::Args as SimArgs;
use tokio_util::sync::CancellationToken;

use crate::engine_program;

/// Program names that select a role (`longboat_node` links the executable under them, and so does the image).
const PROGRAMS: [(&str, &str); 7] = [
    ("manager", "controller"),
    ("vllm", "vllm"),
    ("epp", "epp"),
    ("pd-sidecar", "sidecar"),
    ("storage-initializer", "fetch"),
    ("initializer-entrypoint", "fetch"),
    ("llm-d-inference-sim", "sim"),
];

/// Returns the role of an executable started under this name.
pub(crate) fn of_program(program: &OsStr) -> Option<&'static str> {
    let name = Path::new(program).file_name()?.to_str()?;
    PROGRAMS.iter().find(|(program, _)| *program == name).map(|(_, role)| *role)
}

/// Runs `vllm serve …`, and the few other commands of `vllm` that start scripts use.
pub(crate) async fn vllm(arguments: Vec<String>, shutdown: CancellationToken) -> anyhow::Result<()> {
    if asks_for_help(&arguments) {
        print_help("vllm serve MODEL");
        return Ok(());
    }
    match arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        Some(("serve", rest)) => simulate(SimArgs::vllm(&on_pod_address(rest))?, shutdown).await,
        // vLLM's render server only tokenizes prompts. Here the whole simulator takes its place.
        Some(("launch", [component, rest @ ..])) if component == "render" => {
            simulate(SimArgs::vllm(&on_pod_address(rest))?, shutdown).await
        }
        Some(("launch", rest)) => {
            let component = rest.first().map_or("nothing", String::as_str);
            bail!("the simulator supports `vllm launch render MODEL`, not `vllm launch {component}`")
        }
        Some(("--version" | "-v", _)) => {
            crate::printer::line(longboat_sim::ENGINE_VERSION);
            Ok(())
        }
        Some((other, _)) => {
            bail!("the simulator supports `vllm serve` and `vllm launch render`, not `vllm {other}`")
        }
        None => bail!("expected `vllm serve MODEL`"),
    }
}

/// Runs the simulator with the arguments of llm-d's simulator.
pub(crate) async fn sim(arguments: Vec<String>, shutdown: CancellationToken) -> anyhow::Result<()> {
    if asks_for_help(&arguments) {
        print_help("longboat sim --model MODEL");
        return Ok(());
    }
    simulate(SimArgs::simulator(&on_pod_address(&arguments))?, shutdown).await
}

/// Whether the arguments of the simulator ask for help. clap does not read them, because vLLM has more flags than the
/// simulator knows.
fn asks_for_help(arguments: &[String]) -> bool {
    arguments.iter().any(|argument| matches!(argument.as_str(), "--help" | "-h"))
}

fn print_help(usage: &str) {
    crate::printer::line(&format!("Usage: {usage} [FLAGS]\n\n{}", longboat_sim::HELP.trim_end()));
}

/// Runs a model server that computes answers.
///
/// The server is a separate program, which replaces this process.
pub(crate) fn engine(arguments: &[String]) -> anyhow::Result<()> {
    let program = engine_program::find().with_context(engine_program::missing)?;
    let error = Command::new(&program).args(arguments).exec();
    Err(error).with_context(|| format!("cannot start `{}`", program.display()))
}

/// Runs the routing sidecar of a decode pod.
pub(crate) async fn sidecar(
    mut args: longboat_sidecar::Args,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    args.address = pod_address()
        .map(|address| {
            address.parse().with_context(|| {
                format!("environment variable {POD_ADDRESS_VARIABLE} is `{address}`: expected an IP address")
            })
        })
        .transpose()?;
    Ok(longboat_sidecar::run(args, shutdown).await?)
}

async fn simulate(args: SimArgs, shutdown: CancellationToken) -> anyhow::Result<()> {
    let args = args.with_environment(|name| std::env::var(name).ok());
    longboat_sim::run(args, shutdown).await.context("the simulator cannot serve")
}

/// Adds `--host` with the pod's address: on a local node each pod has its own loopback address, and its servers must not
/// listen on all addresses.
fn on_pod_address(arguments: &[String]) -> Vec<String> {
    let host = pod_address().map(|address| ["--host".to_owned(), address]).into_iter().flatten();
    arguments.iter().cloned().chain(host).collect()
}

fn pod_address() -> Option<String> {
    std::env::var(POD_ADDRESS_VARIABLE).ok().filter(|address| !address.is_empty())
}

#[cfg(test)]
mod tests {
    use longboat_install::{Installation, Values, names};
    use serde_json::Value;

    use super::*;

    #[test]
    fn help_is_asked_for_anywhere_among_the_arguments_of_the_simulator() {
        let asked = |text: &str| asks_for_help(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert!(asked("--help") && asked("serve org/model -h") && !asked("serve org/model --port 0"));
    }

    const DOCKERFILE: &str = include_str!("../../../Dockerfile");

    /// Returns the names of the binary in the image.
    fn links() -> Vec<&'static str> {
        let script = include_str!("../../../scripts/image-root.sh");
        let names = script.lines().find_map(|line| line.strip_prefix("for name in ")).unwrap();
        names.trim_end_matches("; do").split(' ').collect()
    }

    #[test]
    fn every_name_of_the_binary_in_the_image_chooses_a_role() {
        assert_eq!(links().len(), 4);
        for link in links() {
            assert!(of_program(OsStr::new(link)).is_some(), "{link}");
        }
    }

    #[test]
    fn what_manifests_start_from_our_image_is_there_and_runs_as_the_user_they_name() {
        let installation = Installation::new("kserve", &Values::default()).unwrap();
        let deployment =
            installation.controller.iter().find(|object| object["kind"] == "Deployment").unwrap();
        let mut commands = Vec::new();
        collect(deployment, &mut commands);
        for preset in &installation.presets {
            collect(preset, &mut commands);
        }
        commands.sort_unstable();
        commands.dedup();
        assert_eq!(commands, ["/app/epp", "/app/pd-sidecar", "/manager"]);
        assert!(commands.iter().all(|command| links().contains(&command.as_str())), "{:?}", links());
        assert!(DOCKERFILE.contains(&format!("\nUSER {0}:{0}\n", names::USER)));
    }

    /// Collects the commands of containers with Longboat's image.
    fn collect(value: &Value, commands: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                let image = map.get("image").and_then(Value::as_str).unwrap_or_default();
                if image.contains("GlobalConfig.Image") || image.contains("longboat/longboat") {
                    commands.push(map["command"][0].as_str().unwrap().to_owned());
                }
                map.values().for_each(|value| collect(value, commands));
            }
            Value::Array(values) => values.iter().for_each(|value| collect(value, commands)),
            _ => {}
        }
    }
}
