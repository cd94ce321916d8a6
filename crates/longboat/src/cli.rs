//! The command line.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

/// KServe's LLMInferenceService stack in one binary.
#[derive(Debug, Parser)]
#[command(name = "longboat", version, about, propagate_version = true, disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run manifests on this machine: the same controller, presets and picker as on a cluster, pods as processes
    Up(Box<UpArgs>),
    /// Print the CustomResourceDefinitions
    Crds(CrdsArgs),
    /// Role: the controller of a cluster
    Controller(Box<longboat_controller::ProcessArgs>),
    /// Role: the endpoint picker of an InferencePool
    Epp(Box<longboat_epp::Args>),
    /// Role: bring a model into a folder, as the storage initializer does
    Fetch(longboat_fetch::Args),
    /// Role: a Kubernetes API server in memory
    Apiserver(longboat_apiserver::Args),
    /// Role: a model server without a model
    #[command(disable_help_flag = true)]
    Sim(EngineArgs),
    /// Role: what runs under the name `vllm` where the engine is the simulator
    #[command(hide = true, disable_help_flag = true)]
    Vllm(EngineArgs),
    /// Role: kill what a node leaves behind
    #[command(hide = true)]
    Reaper,
}

/// Arguments of `up`.
#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// Manifests: files, folders, or `-` for standard input
    #[arg(value_name = "MANIFEST")]
    pub(crate) manifests: Vec<PathBuf>,
    /// The same as a flag, repeatable
    #[arg(short = 'f', long = "filename", value_name = "MANIFEST")]
    pub(crate) filenames: Vec<PathBuf>,
    /// Ask this once the services are ready, and print the answer to stdout as it comes
    #[arg(long, value_name = "TEXT")]
    pub(crate) prompt: Option<String>,
    /// End when the services are ready and the prompt is answered
    #[arg(long)]
    pub(crate) once: bool,
    /// Port of the gateway on 127.0.0.1; 0 for any free one
    #[arg(long, default_value_t = 8080)]
    pub(crate) port: u16,
    /// Port of the API server on 127.0.0.1; 0 for any free one
    #[arg(long, default_value_t = 0)]
    pub(crate) api_port: u16,
    /// Folder in which objects outlive this process; a temporary one if not given
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Run this command as the engine, in place of the simulator; it gets the arguments of `vllm serve`
    #[arg(long, value_name = "CMD")]
    pub(crate) engine: Option<String>,
    /// Seconds until every service must be ready
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    pub(crate) timeout: u64,
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

/// Reads the command line; the name of the executable may choose a role.
pub(crate) fn parse(mut arguments: Vec<OsString>) -> Result<Command, clap::Error> {
    if let Some(role) = arguments.first().and_then(|program| crate::role::of_program(program)) {
        arguments.insert(1, role.into());
    }
    // The reference's picker is started with empty arguments where a template rendered to nothing, and takes long
    // flags with one dash too.
    if arguments.get(1).is_some_and(|role| role == "epp") {
        arguments.retain(|argument| !argument.is_empty());
        arguments = longboat_epp::normalized(arguments);
    }
    let matches = Cli::command().try_get_matches_from(arguments)?;
    Ok(Cli::from_arg_matches(&matches)?.command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_program_name_chooses_its_role() {
        let parsed =
            parse(["/x/bin/vllm", "serve", "/mnt/models", "--port", "8000"].map(Into::into).to_vec())
                .unwrap();
        assert!(
            matches!(parsed, Command::Vllm(args) if args.arguments == ["serve", "/mnt/models", "--port", "8000"])
        );
        let parsed =
            parse(["/x/bin/storage-initializer", "hf://a/b", "/mnt"].map(Into::into).to_vec()).unwrap();
        assert!(matches!(parsed, Command::Fetch(args) if args.source == "hf://a/b"));
    }
}
