//! The command line.

mod elsewhere;
mod folders;
mod help;
mod inspect;
mod install;
mod manifests;
mod numbers;
pub(crate) mod output;
mod run;
mod simulate;
pub(crate) mod up;

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueHint};
use clap_complete::Shell;

pub(crate) use self::{
    inspect::{ClusterArgs, DashboardArgs, DoctorArgs, StatusArgs, WhyArgs},
    install::{InstallArgs, Services, UninstallArgs, UpgradeArgs},
    manifests::{Api, DiffArgs, EnvironmentArgs, ExplainArgs, ManifestArgs, RenderArgs, ValidateArgs},
    output::{Format, OutputFormat},
    run::{ModelArgs, ModelsCommand, RunArgs},
    simulate::{AutoscalerKind, CalibrateArgs, SimulateArgs, SimulateCommand},
    up::{EngineChoice, LocalArgs, UpArgs},
};
use crate::program_name::ProgramName;

/// KServe's LLMInferenceService stack in one binary.
#[derive(Debug, Parser)]
#[command(name = "longboat", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run services on this machine, with the controller, presets and picker of a cluster, and with processes as pods
    Up(Box<UpArgs>),
    /// Run a model on this machine, and chat with it or send it a prompt
    Run(Box<RunArgs>),
    /// Validate manifests as a cluster would, without a cluster
    Validate(ValidateArgs),
    /// Print the objects that the controller would create for manifests
    Render(Box<RenderArgs>),
    /// Explain which layer set a field and which value it replaced, or show all layers of a service
    Explain(Box<ExplainArgs>),
    /// Show what applying manifests would change in services, in the objects made from them, and in all other objects, and which
    /// pods would restart; exit codes as of `kubectl diff`
    Diff(Box<DiffArgs>),
    /// Predict latencies, hit ratios and the needed replicas for traffic: the real picker with simulated engines, in virtual time
    Simulate(Box<SimulateArgs>),
    /// Show the services of a cluster or of `longboat up` as a tree; exit code 1 if a service is not ready
    Status(StatusArgs),
    /// Find out why services or the installation do not work, and what to do; exit code 1 if something is broken
    Doctor(DoctorArgs),
    /// Explain why the picker chose a replica for a request: every filter, and the score of every scorer
    Why(WhyArgs),
    /// Serve a web page with services, replicas and routing decisions on 127.0.0.1, for the current user
    Dashboard(DashboardArgs),
    /// Print the CustomResourceDefinitions
    Crds(CrdsArgs),
    /// Download, show or remove models of this machine
    #[command(subcommand, disable_help_subcommand = true)]
    Models(ModelsCommand),
    /// Install the controller with its CRDs, RBAC rules, webhooks and presets on a cluster, or upgrade them
    Install(Box<InstallArgs>),
    /// Show which services would change and which pods would restart if this build took over the cluster; exit codes as of
    /// `diff`
    Upgrade(Box<UpgradeArgs>),
    /// Remove the objects of `install` from a cluster
    Uninstall(UninstallArgs),
    /// Print a shell completion script
    #[command(alias = "completions")]
    Completion(CompletionArgs),
    /// Write manual pages for `man`, one for each verb and role
    Man(ManArgs),
    /// Print the version of this build
    Version,
    /// Print docs/reference/cli.md
    #[command(hide = true)]
    CliReference,
    /// Role: the controller of a cluster
    Controller(Box<longboat_controller::ProcessArgs>),
    /// Role: the endpoint picker of an InferencePool
    Epp(Box<longboat_epp::Args>),
    /// Role: the endpoint picker that the pools of many services share
    SharedPicker(Box<longboat_epp::SharedArgs>),
    /// Role: a pod of a Gateway, which proxies the requests of its HTTPRoutes
    Gateway(longboat_gateway::Args),
    /// Role: the proxy in a decode pod, which lets a prefill pod compute the prompt
    Sidecar(Box<longboat_sidecar::Args>),
    /// Role: the storage initializer, which downloads a model into a folder
    Fetch(FetchArgs),
    /// Role: a Kubernetes API server in memory
    Apiserver(longboat_apiserver::Args),
    /// Role: a simulated model server, without a model
    #[command(disable_help_flag = true)]
    Sim(EngineArgs),
    /// Role: a model server that runs the model on the CPU
    #[command(disable_help_flag = true)]
    Engine(EngineArgs),
    /// Role: the program named `vllm` if the engine is the simulator
    #[command(hide = true, disable_help_flag = true)]
    Vllm(EngineArgs),
    /// Role: kill the processes that a node leaves behind
    #[command(hide = true)]
    Reaper,
}

/// Arguments of `crds`.
#[derive(Debug, Args)]
pub(crate) struct CrdsArgs {
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    pub(crate) output: Format,
    /// Omit descriptions, and the schema of v1alpha1, so that only the webhooks check objects of v1alpha1
    #[arg(long)]
    pub(crate) minimal: bool,
}

/// Arguments of `completion`.
#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    /// Shell for which to print the script
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Folder to write to, such as ~/.local/share/man/man1
    #[arg(value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub(crate) folder: PathBuf,
}

/// Arguments of the storage initializer.
#[derive(Debug, Args)]
pub(crate) struct FetchArgs {
    #[command(flatten)]
    pub(crate) downloads: longboat_fetch::Args,
    #[command(flatten)]
    pub(crate) loader: longboat_fetch::LoaderArgs,
}

/// Arguments of a model server, which has its own syntax.
#[derive(Debug, Args)]
pub(crate) struct EngineArgs {
    /// Arguments of `vllm serve`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<String>,
}

/// Returns the command line of an executable with this name.
pub(crate) fn command(called: ProgramName) -> clap::Command {
    let command = Cli::command().mut_subcommands(|verb| match verb.get_name() {
        "sim" => verb.after_help(longboat_sim::HELP),
        "validate" | "render" | "diff" => must_name_manifests(verb),
        _ => verb,
    });
    let command = help::with_groups_and_examples(numbers::with_negative(command), called);
    match called {
        ProgramName::Longboat => command,
        ProgramName::Plugin => command.bin_name("kubectl longboat").mut_subcommands(|verb| {
            let hidden = verb.is_hide_set() || help::is_role(&verb);
            verb.hide(hidden)
        }),
    }
}

/// Makes manifests required. `up` does not need them if a state folder has a cluster; most verbs do.
fn must_name_manifests(verb: clap::Command) -> clap::Command {
    verb.mut_arg("manifests", |manifests| manifests.required_unless_present("filenames"))
}

/// Parses the command line. The name of the executable may choose a role.
pub(crate) fn parse(mut arguments: Vec<OsString>) -> Result<Command, clap::Error> {
    let program = arguments.first().cloned().unwrap_or_default();
    let role = crate::role::of_program(&program);
    // The name of the executable stands for a verb that was not typed.
    if let Some(role) = role {
        arguments.insert(1, role.into());
    }
    // llm-d's picker is started with empty arguments if a template rendered to nothing. It also accepts long flags with a
    // single dash.
    if arguments.get(1).is_some_and(|role| role == "epp") {
        arguments.retain(|argument| !argument.is_empty());
        arguments = longboat_epp::normalized(arguments);
    }
    if arguments.get(1).is_some_and(|role| role == "sidecar") {
        arguments = longboat_sidecar::expanded(arguments).map_err(|error| {
            clap::Error::raw(clap::error::ErrorKind::ValueValidation, format!("{error}\n"))
        })?;
    }
    if let Some(command) = role_in_pod(&arguments) {
        return Ok(command);
    }
    let called = ProgramName::by(&program);
    let mut command = command(called);
    if let Some(role) = role {
        command = command.mut_subcommand(role, |verb| with_program_usage(verb, &program));
    }
    let matches = command
        .try_get_matches_from_mut(arguments)
        .map_err(|error| numbers::explain(elsewhere::advise(error, called.typed())))?;
    Ok(Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?.command)
}

/// Parses the flags of a role that runs in pods. Its process has no use for the definitions of all verbs, whose code takes some megabytes
/// of memory once it has run. Returns `None` for other roles, and where the flags lead to an error or to help.
fn role_in_pod(arguments: &[OsString]) -> Option<Command> {
    fn read<A: Args>(arguments: &[OsString]) -> Option<A> {
        let command = numbers::with_negative(A::augment_args(clap::Command::new("longboat")));
        A::from_arg_matches(&command.try_get_matches_from(arguments).ok()?).ok()
    }
    let arguments = arguments.get(1..)?;
    Some(match arguments.first()?.to_str()? {
        "epp" => Command::Epp(Box::new(read(arguments)?)),
        "shared-picker" => Command::SharedPicker(Box::new(read(arguments)?)),
        "gateway" => Command::Gateway(read(arguments)?),
        "sidecar" => Command::Sidecar(Box::new(read(arguments)?)),
        _ => return None,
    })
}

/// Sets the usage of a role that the name of the executable has chosen, so that the usage shows that name.
fn with_program_usage(verb: clap::Command, program: &OsStr) -> clap::Command {
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
    let usage = verb.clone().bin_name(name).render_usage().to_string();
    verb.override_usage(usage.trim_start_matches("Usage: ").to_owned())
}

#[cfg(test)]
mod tests;
