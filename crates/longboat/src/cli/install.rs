//! The command line of installing and uninstalling.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

use super::{ClusterArgs, Format, Shown};

/// Arguments of `install`.
#[derive(Debug, Args)]
pub(crate) struct InstallArgs {
    /// Namespace of the controller, the presets and the settings of the platform
    #[arg(short, long, value_name = "NAMESPACE", default_value = longboat_api::names::DEFAULT_SYSTEM_NAMESPACE)]
    pub(crate) namespace: String,
    /// File with values, `-` for standard input; repeatable, later ones win
    #[arg(short = 'f', long = "values", value_name = "FILE", value_hint = ValueHint::FilePath)]
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

/// Arguments of `upgrade`.
#[derive(Debug, Args)]
pub(crate) struct UpgradeArgs {
    /// Only say what would change; `longboat install` upgrades
    #[arg(long, required = true)]
    plan: bool,
    /// Namespace of the platform: presets and settings
    #[arg(long, value_name = "NAMESPACE", default_value = longboat_api::names::DEFAULT_SYSTEM_NAMESPACE)]
    pub(crate) system_namespace: String,
    /// Prefix of the names of presets that the upgrade would write
    #[arg(long, value_name = "PREFIX", default_value = longboat_api::names::DEFAULT_PRESET_PREFIX)]
    pub(crate) preset_prefix: String,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Shown::Text)]
    pub(crate) output: Shown,
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
