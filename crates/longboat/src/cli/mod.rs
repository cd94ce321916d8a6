//! The command line.

mod folders;
mod help;
mod install;

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;

pub(crate) use self::install::{InstallArgs, Services, UninstallArgs, UpgradeArgs};
use crate::{called::Called, up::engine::EngineChoice};

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

/// The manifests that a verb is about.
#[derive(Debug, Args)]
pub(crate) struct ManifestArgs {
    /// Manifests: files, folders, or `-` for standard input
    #[arg(value_name = "MANIFEST", value_hint = ValueHint::AnyPath)]
    manifests: Vec<PathBuf>,
    /// The same as a flag, repeatable
    #[arg(short = 'f', long = "filename", value_name = "MANIFEST", value_hint = ValueHint::AnyPath)]
    filenames: Vec<PathBuf>,
    /// Read the folders below folders too
    #[arg(short = 'R', long)]
    recursive: bool,
}

// === impl ManifestArgs ===

impl ManifestArgs {
    /// All that were named, in order.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        folders::with_those_below(self.manifests.iter().chain(&self.filenames), self.recursive)
    }
}

/// Arguments of `up`.
#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) manifests: ManifestArgs,
    /// Ask this once the services are ready, and print the answer to stdout as it comes
    #[arg(long, value_name = "TEXT")]
    pub(crate) prompt: Option<String>,
    /// End when the services are ready and the prompt is answered
    #[arg(long)]
    pub(crate) once: bool,
    /// Port of the gateway on 127.0.0.1; 0 for any free one
    #[arg(long, default_value_t = 8080)]
    pub(crate) port: u16,
    /// A further host name that the gateway serves, beside loopback names, addresses, and those of routes; repeatable
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// An origin whose web pages may use the gateway, as `http://localhost:3000`; `*` for any; repeatable
    #[arg(long, value_name = "ORIGIN", value_parser = origin)]
    pub(crate) cors_origin: Vec<String>,
    /// Port of the API server on 127.0.0.1; 0 for any free one
    #[arg(long, default_value_t = 0)]
    pub(crate) api_port: u16,
    /// Port of the dashboard on 127.0.0.1; 0 for any free one
    #[arg(long, default_value_t = 0)]
    pub(crate) dashboard_port: u16,
    /// Folder in which objects outlive this process; a temporary one if not given
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) state: Option<PathBuf>,
    /// What answers: `cpu` computes the model, `sim` makes text up, `auto` computes what this machine can; anything else is a
    /// command, which gets the arguments of `vllm serve`
    #[arg(long, value_name = "auto|cpu|sim|CMD", env = "LONGBOAT_ENGINE", default_value = "auto")]
    pub(crate) engine: EngineChoice,
    /// The most that `--engine auto` downloads, in GB
    #[arg(long, value_name = "GB", default_value_t = 4)]
    pub(crate) max_download: u64,
    /// Take models from this machine only
    #[arg(long)]
    pub(crate) offline: bool,
    /// Seconds until every service must be ready, or since the last progress of a download
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    pub(crate) timeout: u64,
}

/// An origin as browsers write it: a scheme and a host, perhaps a port, and nothing more.
fn origin(text: &str) -> Result<String, String> {
    let is_origin = text.split_once("://").is_some_and(|(scheme, host)| {
        !scheme.is_empty() && !host.is_empty() && !host.contains(['/', '?', '#', '@', ' '])
    });
    if text == "*" || is_origin {
        return Ok(text.to_owned());
    }
    Err("expected an origin such as `http://localhost:3000`, without a path, or `*`".into())
}

/// What a platform brings along, where no cluster is looked at.
#[derive(Debug, Args)]
pub(crate) struct PlatformArgs {
    /// Presets: a file or folder of them, or `none`; those of this build if not given
    #[arg(long, value_name = "DIR|none", value_hint = ValueHint::AnyPath)]
    pub(crate) presets: Option<PathBuf>,
    /// File with the platform's settings, the ConfigMap `inferenceservice-config`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) platform: Option<PathBuf>,
}

/// What manifests are read with.
#[derive(Debug, Args)]
pub(crate) struct WorldArgs {
    #[command(flatten)]
    pub(crate) platform: PlatformArgs,
    /// Namespace of objects that name none
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Namespace of the platform: presets and settings
    #[arg(long, value_name = "NAMESPACE", default_value = longboat_api::names::DEFAULT_SYSTEM_NAMESPACE)]
    pub(crate) system_namespace: String,
    /// Prefix of the names of presets
    #[arg(long, value_name = "PREFIX", default_value = longboat_api::names::DEFAULT_PRESET_PREFIX)]
    pub(crate) preset_prefix: String,
    /// An API that the cluster is to lack; all are there if not given
    #[arg(long, value_name = "API", value_enum)]
    pub(crate) without: Vec<Api>,
}

/// APIs that clusters may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Api {
    /// `gateway.networking.k8s.io/v1`.
    Gateway,
    /// `inference.networking.k8s.io/v1`.
    Inferencepool,
    /// `inference.networking.x-k8s.io/v1alpha2`.
    InferencepoolX,
}

/// Which cluster to look at.
#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    /// File with the cluster's address and credentials; `KUBECONFIG` or the pod's own if not given
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context within it
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

/// Arguments of `render`.
#[derive(Debug, Args)]
pub(crate) struct RenderArgs {
    #[command(flatten)]
    pub(crate) manifests: ManifestArgs,
    #[command(flatten)]
    pub(crate) world: WorldArgs,
    /// Print the merged spec instead of the children
    #[arg(long)]
    pub(crate) effective: bool,
    /// Look at a cluster for everything that the manifests do not hold
    #[arg(long)]
    pub(crate) live: bool,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Yaml)]
    pub(crate) output: Format,
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A manifest, or the name of a service in a cluster
    #[arg(value_name = "SERVICE|FILE", value_hint = ValueHint::AnyPath)]
    pub(crate) target: String,
    /// A field: `spec.template.containers[main].args`, or of a child: `deployment.spec.replicas`
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<String>,
    /// More manifests: files, folders, or `-` for standard input; repeatable
    #[arg(short = 'f', long = "filename", value_name = "MANIFEST", value_hint = ValueHint::AnyPath)]
    filenames: Vec<PathBuf>,
    /// Read the folders below folders too
    #[arg(short = 'R', long)]
    recursive: bool,
    #[command(flatten)]
    pub(crate) world: WorldArgs,
    /// Which service, where the manifests hold several
    #[arg(long, value_name = "[NAMESPACE/]NAME")]
    pub(crate) service: Option<String>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Shown::Text)]
    pub(crate) output: Shown,
}

/// Arguments of `diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    pub(crate) manifests: ManifestArgs,
    #[command(flatten)]
    pub(crate) world: WorldArgs,
    /// Compare with these manifests instead of a cluster; repeatable
    #[arg(long, value_name = "MANIFEST", value_hint = ValueHint::AnyPath)]
    from: Vec<PathBuf>,
    /// Compare with these presets: a file or folder of them, `none`, or `builtin`
    #[arg(long, value_name = "DIR|none|builtin", value_hint = ValueHint::AnyPath)]
    pub(crate) from_presets: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Shown::Text)]
    pub(crate) output: Shown,
}

// === impl ExplainArgs ===

impl ExplainArgs {
    /// The target, taken as a file, and the files of the flags.
    pub(crate) fn files_with_target(&self) -> Vec<PathBuf> {
        let target = PathBuf::from(&self.target);
        folders::with_those_below([&target].into_iter().chain(&self.filenames), self.recursive)
    }

    /// The files of the flags.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        folders::with_those_below(&self.filenames, self.recursive)
    }
}

// === impl DiffArgs ===

impl DiffArgs {
    /// The manifests that are compared with.
    pub(crate) fn from(&self) -> Vec<PathBuf> {
        folders::with_those_below(&self.from, self.manifests.recursive)
    }
}

/// Arguments of `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Names of services; all of the namespace if not given
    #[arg(value_name = "SERVICE")]
    pub(crate) services: Vec<String>,
    /// Namespace; the one of the context if not given
    #[arg(short, long, value_name = "NAMESPACE", conflicts_with = "all_namespaces")]
    pub(crate) namespace: Option<String>,
    /// Services of all namespaces
    #[arg(short = 'A', long, conflicts_with = "services")]
    pub(crate) all_namespaces: bool,
    /// Go on and show what changes
    #[arg(short, long, conflicts_with = "output")]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Shown::Text)]
    pub(crate) output: Shown,
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Names of services; all if not given
    #[arg(value_name = "SERVICE")]
    pub(crate) services: Vec<String>,
    /// Look at services of this namespace only; names alone are looked for in the one of the context
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    /// Namespace of the platform: controller, presets and settings
    #[arg(long, value_name = "NAMESPACE", default_value = longboat_api::names::DEFAULT_SYSTEM_NAMESPACE)]
    pub(crate) system_namespace: String,
    /// Prefix of the names of presets
    #[arg(long, value_name = "PREFIX", default_value = longboat_api::names::DEFAULT_PRESET_PREFIX)]
    pub(crate) preset_prefix: String,
    /// Send no request to services that say Ready
    #[arg(long)]
    pub(crate) no_requests: bool,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Shown::Text)]
    pub(crate) output: Shown,
}

/// Arguments of `why`.
#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// The id in the header `x-request-id` of the response
    #[arg(value_name = "REQUEST-ID")]
    pub(crate) id: String,
    /// Ask the pickers of this namespace only
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Shown::Text)]
    pub(crate) output: Shown,
}

/// Arguments of `dashboard`.
#[derive(Debug, Args)]
pub(crate) struct DashboardArgs {
    /// Port on 127.0.0.1; 0 for any free one
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// Open the page in a browser
    #[arg(long)]
    pub(crate) open: bool,
    /// Show services of this namespace only; of all if not given
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Arguments of `validate`.
#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    #[command(flatten)]
    pub(crate) manifests: ManifestArgs,
    #[command(flatten)]
    pub(crate) platform: PlatformArgs,
    /// Output format: lines for people, or one JSON array of findings
    #[arg(short, long, value_enum, default_value_t = Shown::Text)]
    pub(crate) output: Shown,
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

/// Programs for machines, which a person who types `kubectl longboat` has no use for.
const ROLES: [&str; 9] =
    ["controller", "epp", "sidecar", "fetch", "apiserver", "sim", "engine", "vllm", "reaper"];

/// The command line of an executable with this name.
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

/// `up` can do without, in a world that it finds in a folder; most verbs cannot.
fn must_name_manifests(verb: clap::Command) -> clap::Command {
    verb.mut_arg("manifests", |manifests| manifests.required_unless_present("filenames"))
}

/// Reads the command line; the name of the executable may choose a role.
pub(crate) fn parse(mut arguments: Vec<OsString>) -> Result<Command, clap::Error> {
    let program = arguments.first().cloned().unwrap_or_default();
    let role = crate::role::of_program(&program);
    if let Some(role) = role {
        arguments.insert(1, role.into());
    }
    // The reference's picker is started with empty arguments where a template rendered to nothing, and takes long
    // flags with one dash too.
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

/// A role that the name of the executable chose: nobody types it.
fn under_its_own_name(verb: clap::Command, program: &OsStr) -> clap::Command {
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
    let usage = verb.clone().bin_name(name).render_usage().to_string();
    verb.override_usage(usage.trim_start_matches("Usage: ").to_owned())
}

#[cfg(test)]
mod tests;
