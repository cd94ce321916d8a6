//! The command line.

mod folders;
mod help;
mod install;
mod look;
mod manifests;
mod up;

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

pub(crate) use self::{
    install::{InstallArgs, Services, UninstallArgs, UpgradeArgs},
    look::{ClusterArgs, DashboardArgs, DoctorArgs, StatusArgs, WhyArgs},
    manifests::{Api, DiffArgs, ExplainArgs, ManifestArgs, RenderArgs, ValidateArgs, WorldArgs},
    up::UpArgs,
};
use crate::called::Called;

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
    /// Run manifests on this machine: the same controller, presets and picker as on a cluster, pods as processes
    Up(Box<UpArgs>),
    /// Say what a cluster would say about manifests, without one
    Validate(ValidateArgs),
    /// Print the objects that the controller would write for manifests
    Render(Box<RenderArgs>),
    /// Say which layer set a field, what it replaced, and what made the rest
    Explain(Box<ExplainArgs>),
    /// Say what applying manifests would change, and which pods would roll; exit codes as `kubectl diff`
    Diff(Box<DiffArgs>),
    /// Show the tree of services in a cluster or a local world; exit code 1 where one is not ready
    Status(StatusArgs),
    /// Say why services, or the whole installation, do not work, and what to do; exit code 1 where something is broken
    Doctor(DoctorArgs),
    /// Say why the picker sent a request to its replica: every filter, and every scorer's value
    Why(WhyArgs),
    /// Serve a page that shows services, replicas and decisions, for this user on this machine
    Dashboard(DashboardArgs),
    /// Print the CustomResourceDefinitions
    Crds(CrdsArgs),
    /// Show or remove models that are kept on this machine
    #[command(subcommand, disable_help_subcommand = true)]
    Models(ModelsCommand),
    /// Install the controller, its definitions, rights, webhooks and presets on a cluster, or upgrade them
    Install(Box<InstallArgs>),
    /// Say which services would change, and which pods would roll, if this build took over the cluster; exit codes as `diff`
    Upgrade(Box<UpgradeArgs>),
    /// Remove from a cluster what `install` wrote
    Uninstall(UninstallArgs),
    /// Print a script that completes this command line in a shell
    #[command(visible_alias = "completions")]
    Completion(CompletionArgs),
    /// Print the version of this build
    Version,
    /// Print docs/reference/cli.md
    #[command(hide = true)]
    CliReference,
    /// Role: the controller of a cluster
    Controller(Box<longboat_controller::ProcessArgs>),
    /// Role: the endpoint picker of an InferencePool
    Epp(Box<longboat_epp::Args>),
    /// Role: the proxy beside a decode pod, which lets another pod compute the prompt
    Sidecar(Box<longboat_sidecar::Args>),
    /// Role: bring a model into a folder, as the storage initializer does
    Fetch(longboat_fetch::Args),
    /// Role: a Kubernetes API server in memory
    Apiserver(longboat_apiserver::Args),
    /// Role: a model server without a model
    #[command(disable_help_flag = true)]
    Sim(EngineArgs),
    /// Role: a model server that computes its answers on the CPU
    #[command(disable_help_flag = true)]
    Engine(EngineArgs),
    /// Role: what runs under the name `vllm` where the engine is the simulator
    #[command(hide = true, disable_help_flag = true)]
    Vllm(EngineArgs),
    /// Role: kill what a node leaves behind
    #[command(hide = true)]
    Reaper,
}

/// Formats of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shown {
    /// For people.
    Text,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
}

/// What to do with the models that are kept.
#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// Show the models, and where they are: in `LONGBOAT_CACHE`, or below the XDG cache folder
    Ls(ModelsListArgs),
    /// Remove models
    Rm(ModelsRemoveArgs),
}

/// Arguments of `models ls`.
#[derive(Debug, Args)]
pub(crate) struct ModelsListArgs {
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Shown::Text)]
    pub(crate) output: Shown,
}

/// Arguments of `models rm`.
#[derive(Debug, Args)]
pub(crate) struct ModelsRemoveArgs {
    /// Addresses of models, or names of their folders
    #[arg(value_name = "MODEL", required_unless_present = "all")]
    pub(crate) models: Vec<String>,
    /// Remove all of them
    #[arg(long, conflicts_with = "models")]
    pub(crate) all: bool,
}

/// Arguments of `crds`.
#[derive(Debug, Args)]
pub(crate) struct CrdsArgs {
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    pub(crate) output: Format,
    /// Leave out descriptions and the schema of v1alpha1, which then only the webhooks check
    #[arg(long)]
    pub(crate) minimal: bool,
}

/// Arguments of `completion`.
#[derive(Debug, Args)]
pub(crate) struct CompletionArgs {
    /// Shell that is to run the script
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Formats of structured output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// YAML documents.
    Yaml,
    /// One JSON document.
    Json,
}

/// Arguments of a model server, which has its own syntax.
#[derive(Debug, Args)]
pub(crate) struct EngineArgs {
    /// Arguments as vLLM takes them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<String>,
}

/// Programs that machines start. They are hidden from people who type `kubectl longboat`.
const ROLES: [&str; 9] =
    ["controller", "epp", "sidecar", "fetch", "apiserver", "sim", "engine", "vllm", "reaper"];

/// Returns the command line of an executable with this name.
pub(crate) fn command(called: Called) -> clap::Command {
    let command = Cli::command().mut_subcommands(|verb| match verb.get_name() {
        "sim" => verb.after_help(longboat_sim::HELP),
        "validate" | "render" | "diff" => must_name_manifests(verb),
        _ => verb,
    });
    let command = help::dressed(command, called, &ROLES);
    match called {
        Called::Longboat => command,
        Called::Plugin => command.bin_name("kubectl longboat").mut_subcommands(|verb| {
            let hidden = verb.is_hide_set() || ROLES.contains(&verb.get_name());
            verb.hide(hidden)
        }),
    }
}

/// Makes manifests required. `up` does not need them if a state folder has a world; most verbs do.
fn must_name_manifests(verb: clap::Command) -> clap::Command {
    verb.mut_arg("manifests", |manifests| manifests.required_unless_present("filenames"))
}

/// Parses the command line. The name of the executable may choose a role.
pub(crate) fn parse(mut arguments: Vec<OsString>) -> Result<Command, clap::Error> {
    let program = arguments.first().cloned().unwrap_or_default();
    let role = crate::role::of_program(&program);
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
    let mut command = command(Called::by(&program));
    if let Some(role) = role {
        command = command.mut_subcommand(role, |verb| under_its_own_name(verb, &program));
    }
    let matches = command.try_get_matches_from_mut(arguments)?;
    Ok(Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?.command)
}

/// Sets the usage of a role that the name of the executable has chosen, so that the usage shows that name.
fn under_its_own_name(verb: clap::Command, program: &OsStr) -> clap::Command {
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
    let usage = verb.clone().bin_name(name).render_usage().to_string();
    verb.override_usage(usage.trim_start_matches("Usage: ").to_owned())
}

#[cfg(test)]
mod tests;
