//! The command line of verbs that read a cluster or a local cluster.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use longboat_key::{Name, Namespace};

use super::output::OutputFormat;

/// Which cluster to look at.
#[derive(Debug, Clone, Args)]
pub(crate) struct ClusterArgs {
    /// Kubeconfig file; if not given, `KUBECONFIG`, the default kubeconfig, or the service account of the pod
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
}

/// Which cluster to look at, and how to print what is there.
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    pub(crate) output: OutputFormat,
}

/// Arguments of `status`.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Names of services; all services of the namespace if not given
    #[arg(value_name = "SERVICE")]
    pub(crate) services: Vec<Name>,
    /// Namespace of the services; the namespace of the context if not given
    #[arg(short, long, value_name = "NAMESPACE", conflicts_with = "all_namespaces")]
    pub(crate) namespace: Option<Namespace>,
    /// Show the services of all namespaces
    #[arg(short = 'A', long, conflicts_with = "services")]
    pub(crate) all_namespaces: bool,
    /// Keep running, and show changes
    #[arg(short, long, conflicts_with = "output")]
    pub(crate) watch: bool,
    #[command(flatten)]
    pub(crate) look: InspectArgs,
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Names of services; all services if not given
    #[arg(value_name = "SERVICE")]
    pub(crate) services: Vec<Name>,
    /// Check only services of this namespace; if not given, named services are looked up in the namespace of the context
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<Namespace>,
    /// Namespace of the platform, with the controller, presets and settings
    #[arg(long, value_name = "NAMESPACE", default_value = longboat_api::names::DEFAULT_SYSTEM_NAMESPACE)]
    pub(crate) system_namespace: Namespace,
    /// Prefix of the preset names
    #[arg(long, value_name = "PREFIX", default_value = longboat_api::names::DEFAULT_PRESET_PREFIX)]
    pub(crate) preset_prefix: String,
    /// Send no test request to services that are Ready
    #[arg(long)]
    pub(crate) no_requests: bool,
    #[command(flatten)]
    pub(crate) look: InspectArgs,
}

/// Arguments of `why`.
#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// Value of the header `x-request-id` of the response
    #[arg(value_name = "REQUEST-ID")]
    pub(crate) id: String,
    /// Ask only the pickers of this namespace
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<Namespace>,
    #[command(flatten)]
    pub(crate) look: InspectArgs,
}

/// Arguments of `dashboard`.
#[derive(Debug, Args)]
pub(crate) struct DashboardArgs {
    /// Port on 127.0.0.1; 0 for any free port
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// Open the page in a browser
    #[arg(long)]
    pub(crate) open: bool,
    /// Show only services of this namespace; of all namespaces if not given
    #[arg(short, long, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<Namespace>,
    /// Namespace of the platform, with the controller, presets and settings
    #[arg(long, value_name = "NAMESPACE", default_value = longboat_api::names::DEFAULT_SYSTEM_NAMESPACE)]
    pub(crate) system_namespace: Namespace,
    /// Prefix of the preset names
    #[arg(long, value_name = "PREFIX", default_value = longboat_api::names::DEFAULT_PRESET_PREFIX)]
    pub(crate) preset_prefix: String,
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}
