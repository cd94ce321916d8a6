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
    /// Print the CustomResourceDefinitions
    Crds(CrdsArgs),
    /// Install the controller, its definitions, rights, webhooks and presets on a cluster, or upgrade them
    Install(Box<InstallArgs>),
    /// Remove from a cluster what `install` wrote
    Uninstall(UninstallArgs),
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

/// What manifests are read with.
#[derive(Debug, Args)]
pub(crate) struct WorldArgs {
    /// Manifests: files, folders, or `-` for standard input; repeatable
    #[arg(short = 'f', long = "filename", value_name = "MANIFEST")]
    pub(crate) filenames: Vec<PathBuf>,
    /// Presets: a file or folder of them, or `none`; those of this build if not given
    #[arg(long, value_name = "DIR|none")]
    pub(crate) presets: Option<PathBuf>,
    /// File with the platform's settings, the ConfigMap `inferenceservice-config`
    #[arg(long, value_name = "FILE")]
    pub(crate) platform: Option<PathBuf>,
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
    #[arg(skip)]
    positional: Vec<PathBuf>,
}

impl WorldArgs {
    /// All manifests that were named.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.positional.iter().chain(&self.filenames).cloned().collect()
    }
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
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context within it
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

/// Arguments of `render`.
#[derive(Debug, Args)]
pub(crate) struct RenderArgs {
    /// Manifests: files, folders, or `-` for standard input
    #[arg(value_name = "MANIFEST")]
    manifests: Vec<PathBuf>,
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
    #[arg(value_name = "SERVICE|FILE")]
    pub(crate) target: String,
    /// A field: `spec.template.containers[main].args`, or of a child: `deployment.spec.replicas`
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<String>,
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
    /// Manifests: files, folders, or `-` for standard input
    #[arg(value_name = "MANIFEST")]
    manifests: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) world: WorldArgs,
    /// Compare with these manifests instead of a cluster; repeatable
    #[arg(long, value_name = "MANIFEST")]
    pub(crate) from: Vec<PathBuf>,
    /// Compare with these presets: a file or folder of them, `none`, or `builtin`
    #[arg(long, value_name = "DIR|none|builtin")]
    pub(crate) from_presets: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Shown::Text)]
    pub(crate) output: Shown,
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
    #[arg(value_name = "SERVICE", requires = "namespace")]
    pub(crate) services: Vec<String>,
    /// Look at services of this namespace only
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

/// Arguments of `validate`.
#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// Manifests: files, folders, or `-` for standard input
    #[arg(value_name = "MANIFEST", required_unless_present = "filenames")]
    pub(crate) manifests: Vec<PathBuf>,
    /// The same as a flag, repeatable
    #[arg(short = 'f', long = "filename", value_name = "MANIFEST")]
    pub(crate) filenames: Vec<PathBuf>,
    /// Presets of the platform: a folder of LLMInferenceServiceConfigs, or `none`; those of this build if not given
    #[arg(long, value_name = "DIR|none")]
    pub(crate) presets: Option<PathBuf>,
    /// Settings of the platform: a file with the ConfigMap `inferenceservice-config`
    #[arg(long, value_name = "FILE")]
    pub(crate) platform: Option<PathBuf>,
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

/// Arguments of `install`.
#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    /// Namespace of the controller, the presets and the settings of the platform
    #[arg(short, long, value_name = "NAMESPACE", default_value = longboat_api::names::DEFAULT_SYSTEM_NAMESPACE)]
    pub(crate) namespace: String,
    /// File with values, `-` for standard input; repeatable, later ones win
    #[arg(short = 'f', long = "values", value_name = "FILE")]
    pub(crate) values: Vec<PathBuf>,
    /// One value, on top of the files: `replicas=1`, `metrics.secure=false`; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(crate) assignments: Vec<String>,
    /// Print the objects, in the order in which they would be written, and look at no cluster
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Output format of --dry-run
    #[arg(short, long, value_enum, default_value_t = Format::Yaml, requires = "dry_run")]
    pub(crate) output: Format,
    /// Take over objects, and fields of objects, that others wrote
    #[arg(long)]
    pub(crate) force_conflicts: bool,
    /// Seconds until everything must be written and the controller must be ready
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    pub(crate) timeout: u64,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Arguments of `uninstall`.
#[derive(Debug, Args)]
pub(crate) struct UninstallArgs {
    /// What becomes of the LLMInferenceServices that there are
    #[arg(long, value_enum, default_value_t = Services::Refuse)]
    pub(crate) services: Services,
    /// Remove the definitions too, and with them every LLMInferenceServiceConfig of the cluster
    #[arg(long)]
    pub(crate) crds: bool,
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Seconds until everything must be gone
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    pub(crate) timeout: u64,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// What `uninstall` does about services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Services {
    /// Remove nothing while there are any: without a controller they cannot be deleted.
    Refuse,
    /// Leave them to another controller, with the presets and settings that they build on.
    Keep,
    /// Delete them first, while the controller can still let go of them.
    Delete,
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
    if arguments.get(1).is_some_and(|role| role == "sidecar") {
        arguments = longboat_sidecar::expanded(arguments).map_err(|error| {
            clap::Error::raw(clap::error::ErrorKind::ValueValidation, format!("{error}\n"))
        })?;
    }
    let matches = Cli::command().try_get_matches_from(arguments)?;
    let mut command = Cli::from_arg_matches(&matches)?.command;
    match &mut command {
        Command::Render(args) => args.world.positional = std::mem::take(&mut args.manifests),
        Command::Diff(args) => args.world.positional = std::mem::take(&mut args.manifests),
        _ => {}
    }
    Ok(command)
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
        assert!(matches!(parsed, Command::Fetch(args) if args.pairs == ["hf://a/b", "/mnt"]));
        let parsed =
            parse(["/app/pd-sidecar", "--port=1", "", "--vllm-port=2", "extra"].map(Into::into).to_vec());
        assert!(
            matches!(parsed.unwrap(), Command::Sidecar(args) if (args.port, args.vllm_port) == (1, Some(2)))
        );
    }
}
