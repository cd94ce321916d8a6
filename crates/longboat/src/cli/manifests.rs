//! The command line of verbs that are about manifests, without a cluster or beside one.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use longboat_key::Namespace;

use super::{
    folders,
    inspect::{ClusterArgs, InspectArgs},
    output::{Format, OutputFormat},
};

/// The manifests that a verb is about.
#[derive(Debug, Clone, Args)]
pub(crate) struct ManifestArgs {
    /// Manifests: files, folders, or `-` for standard input
    #[arg(value_name = "MANIFEST", value_hint = ValueHint::AnyPath)]
    manifests: Vec<PathBuf>,
    /// Manifest, as a flag; repeatable
    #[arg(short = 'f', long = "filename", value_name = "MANIFEST", value_hint = ValueHint::AnyPath)]
    filenames: Vec<PathBuf>,
    /// Read subfolders recursively
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

/// The platform, if no cluster is read.
#[derive(Debug, Args)]
pub(crate) struct PlatformArgs {
    /// Presets: a file, a folder, or `none`; the presets of this build if not given
    #[arg(long, value_name = "DIR|none", value_hint = ValueHint::AnyPath)]
    pub(crate) presets: Option<PathBuf>,
    /// File with the settings of the platform, as the ConfigMap `inferenceservice-config`; without its key `storageInitializer`,
    /// that of a new installation counts
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) platform: Option<PathBuf>,
}

/// The environment of manifests.
#[derive(Debug, Args)]
pub(crate) struct EnvironmentArgs {
    #[command(flatten)]
    pub(crate) platform: PlatformArgs,
    /// Namespace of objects without a namespace
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<Namespace>,
    /// Namespace of the platform, with presets and settings
    #[arg(long, value_name = "NAMESPACE", default_value = longboat_api::names::DEFAULT_SYSTEM_NAMESPACE)]
    pub(crate) system_namespace: Namespace,
    /// Prefix of the preset names
    #[arg(long, value_name = "PREFIX", default_value = longboat_api::names::DEFAULT_PRESET_PREFIX)]
    pub(crate) preset_prefix: String,
    /// API that the cluster lacks; repeatable; none if not given
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

/// Arguments of `validate`.
#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    #[command(flatten)]
    pub(crate) manifests: ManifestArgs,
    #[command(flatten)]
    pub(crate) platform: PlatformArgs,
    /// Output format: text, or a JSON array of findings
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) output: OutputFormat,
}

/// Arguments of `render`.
#[derive(Debug, Args)]
pub(crate) struct RenderArgs {
    #[command(flatten)]
    pub(crate) manifests: ManifestArgs,
    #[command(flatten)]
    pub(crate) environment: EnvironmentArgs,
    /// Print the merged spec instead of the created objects
    #[arg(long)]
    pub(crate) effective: bool,
    /// Read everything that the manifests do not contain from a cluster
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
    /// Manifest, or name of a service in a cluster
    #[arg(value_name = "SERVICE|FILE", value_hint = ValueHint::AnyPath)]
    pub(crate) target: String,
    /// Field of the spec, such as `spec.template.containers[main].args`, or of a created object, such as
    /// `deployment.spec.replicas`
    #[arg(value_name = "PATH")]
    pub(crate) path: Option<String>,
    /// Further manifests: files, folders, or `-` for standard input; repeatable
    #[arg(short = 'f', long = "filename", value_name = "MANIFEST", value_hint = ValueHint::AnyPath)]
    filenames: Vec<PathBuf>,
    /// Read subfolders recursively
    #[arg(short = 'R', long)]
    recursive: bool,
    #[command(flatten)]
    pub(crate) environment: EnvironmentArgs,
    /// Service to explain, if the manifests contain several
    #[arg(long, value_name = "[NAMESPACE/]NAME")]
    pub(crate) service: Option<String>,
    #[command(flatten)]
    pub(crate) look: InspectArgs,
}

/// Arguments of `diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    pub(crate) manifests: ManifestArgs,
    #[command(flatten)]
    pub(crate) environment: EnvironmentArgs,
    /// Manifest to compare with instead of a cluster; repeatable
    #[arg(long, value_name = "MANIFEST", value_hint = ValueHint::AnyPath)]
    from: Vec<PathBuf>,
    /// Presets to compare with: a file, a folder, `none`, or `builtin`
    #[arg(long, value_name = "DIR|none|builtin", value_hint = ValueHint::AnyPath)]
    pub(crate) from_presets: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) look: InspectArgs,
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
