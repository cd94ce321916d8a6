//! The command line of installing and uninstalling.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint, value_parser};
use longboat_key::Namespace;

use super::{
    inspect::{ClusterArgs, InspectArgs},
    numbers::MAX_TIMEOUT_SECONDS,
    output::Format,
};

/// Arguments of `install`.
#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    /// Namespace of the controller, the presets and the settings
    #[arg(short, long, value_name = "NAMESPACE", default_value = longboat_api::names::DEFAULT_SYSTEM_NAMESPACE)]
    pub(crate) namespace: String,
    /// File with values, or `-` for standard input; repeatable, later files override earlier ones
    #[arg(short = 'f', long = "values", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) values: Vec<PathBuf>,
    /// Value that overrides the files, such as `replicas=1` or `metrics.secure=false`; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    pub(crate) assignments: Vec<String>,
    /// Print the objects in the order in which they would be written, without reading a cluster
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Output format of --dry-run
    #[arg(short, long, value_enum, default_value_t = Format::Yaml, requires = "dry_run")]
    pub(crate) output: Format,
    /// Take over objects and fields that other writers own
    #[arg(long)]
    pub(crate) force_conflicts: bool,
    /// Time limit in seconds for writing all objects, and until the controller is ready
    #[arg(long, default_value_t = 300, value_name = "SECONDS", value_parser = value_parser!(u64).range(..=MAX_TIMEOUT_SECONDS))]
    pub(crate) timeout: u64,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Arguments of `upgrade`.
#[derive(Debug, Args)]
pub(crate) struct UpgradeArgs {
    /// Only show the changes; `longboat install` makes them
    #[arg(long, required = true)]
    plan: bool,
    /// Namespace of the platform, with presets and settings
    #[arg(long, value_name = "NAMESPACE", default_value = longboat_api::names::DEFAULT_SYSTEM_NAMESPACE)]
    pub(crate) system_namespace: Namespace,
    /// Prefix of the names of the presets that the upgrade would write
    #[arg(long, value_name = "PREFIX", default_value = longboat_api::names::DEFAULT_PRESET_PREFIX)]
    pub(crate) preset_prefix: String,
    /// Image of the new controller, which pickers, routing sidecars and downloads have, too. Default: the present one
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,
    #[command(flatten)]
    pub(crate) look: InspectArgs,
}

/// Arguments of `uninstall`.
#[derive(Debug, Args)]
pub(crate) struct UninstallArgs {
    /// What to do with existing LLMInferenceServices
    #[arg(long, value_enum, default_value_t = Services::Refuse)]
    pub(crate) services: Services,
    /// Remove the CRDs too, and with them all LLMInferenceServiceConfigs of the cluster
    #[arg(long)]
    pub(crate) crds: bool,
    /// Print the objects that would be removed, and remove nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Time limit in seconds for the removal
    #[arg(long, default_value_t = 300, value_name = "SECONDS", value_parser = value_parser!(u64).range(..=MAX_TIMEOUT_SECONDS))]
    pub(crate) timeout: u64,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// What `uninstall` does about services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Services {
    /// Remove nothing while services exist: without a controller they cannot be deleted.
    Refuse,
    /// Keep the services for another controller, with the presets and settings that they use.
    Keep,
    /// Delete the services first, while the controller can still remove their finalizers.
    Delete,
}
