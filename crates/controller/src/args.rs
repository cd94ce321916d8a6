//! Settings of the controller.

use std::time::Duration;

use clap::ArgAction;
use longboat_api::names;
use longboat_key::Namespace;

/// The variable with the prefix of the preset names.
pub(crate) const PRESET_PREFIX: &str = "LLM_INFERENCE_SERVICE_CONFIG_PREFIX";

/// Settings of the controller.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Namespace of the platform, with the presets, `inferenceservice-config` and the default Gateway.
    #[arg(long, env = "POD_NAMESPACE", default_value = names::DEFAULT_SYSTEM_NAMESPACE, value_name = "NAMESPACE")]
    pub system_namespace: Namespace,

    /// Watch only this namespace and the namespace of the platform; repeatable. Default: all namespaces.
    #[arg(long = "namespace", value_name = "NAMESPACE")]
    pub namespaces: Vec<Namespace>,

    /// Use Secrets only in this namespace; repeatable. Services of other namespaces are not served. Default: all watched
    /// namespaces.
    #[arg(long = "secret-namespace", value_name = "NAMESPACE", conflicts_with = "namespaces")]
    pub secret_namespaces: Vec<Namespace>,

    /// Prefix of the preset names.
    #[arg(
        long,
        env = PRESET_PREFIX,
        default_value = names::DEFAULT_PRESET_PREFIX,
        value_name = "PREFIX"
    )]
    pub preset_prefix: String,

    /// Let services keep the presets that they were created with when the prefix changes.
    #[arg(
        long,
        env = "LLM_INFERENCE_SERVICE_VERSIONED_CONFIG",
        default_value = "true",
        value_parser = lenient_bool,
        action = ArgAction::Set,
        value_name = "BOOL"
    )]
    pub versioned_presets: bool,

    /// Refuse the deletion of presets of the platform.
    #[arg(
        long,
        env = "PREVENT_WELL_KNOWN_CONFIG_DELETION",
        default_value = "true",
        value_parser = lenient_bool,
        action = ArgAction::Set,
        value_name = "BOOL"
    )]
    pub prevent_preset_deletion: bool,

    /// DNS domain of the cluster.
    #[arg(long, env = "CLUSTER_DOMAIN", default_value = "cluster.local", value_name = "DOMAIN")]
    pub cluster_domain: String,

    /// Number of services that are reconciled at the same time. Reconciling mostly waits for the API server.
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub workers: u16,

    /// Image of pickers, routing sidecars and downloads, unless `inferenceservice-config` names another. Default: the image of the
    /// controller's own pod.
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,

    /// Serve the Gateways whose class has the controller `longboat.dev/gateway`, with pods of this image, which must be one of
    /// this build. Default: serve no Gateways.
    #[arg(long, value_name = "IMAGE", conflicts_with = "namespaces")]
    pub gateway_image: Option<String>,

    /// Migration of objects that are stored in an old version.
    #[command(flatten)]
    pub migration: Migration,
}

/// Flags of the migration of stored objects.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Migration of stored objects")]
pub struct Migration {
    /// Rewrite all objects that are stored in an old version. Only the leader does this.
    #[arg(id = "storage-migration", long = "storage-migration", default_value = "true", action = clap::ArgAction::Set, value_name = "BOOL")]
    pub enabled: bool,

    /// Time until a migration is reported as failed, and then the interval of new attempts. 0 means the default.
    #[arg(id = "storage-migration-timeout", long = "storage-migration-timeout", default_value = "1h", value_parser = longboat_quantity::duration::parse, value_name = "DURATION")]
    pub timeout: Duration,

    /// Maximum wait between two attempts. 0 means the default.
    #[arg(id = "storage-migration-poll-interval", long = "storage-migration-poll-interval", default_value = "30s", value_parser = longboat_quantity::duration::parse, value_name = "DURATION")]
    pub interval: Duration,
}

impl Default for Args {
    fn default() -> Self {
        Self {
            system_namespace: Namespace(names::DEFAULT_SYSTEM_NAMESPACE).to_shared(),
            namespaces: Vec::new(),
            secret_namespaces: Vec::new(),
            preset_prefix: names::DEFAULT_PRESET_PREFIX.to_owned(),
            versioned_presets: true,
            prevent_preset_deletion: true,
            cluster_domain: "cluster.local".to_owned(),
            workers: 8,
            image: None,
            gateway_image: None,
            migration: Migration::default(),
        }
    }
}

// === impl Migration ===

impl Default for Migration {
    fn default() -> Self {
        Self { enabled: true, timeout: Self::TIMEOUT, interval: Self::INTERVAL }
    }
}

impl Migration {
    const TIMEOUT: Duration = Duration::from_hours(1);
    const INTERVAL: Duration = Duration::from_secs(30);

    /// The time limit of the migration, and the longest wait between attempts.
    pub(crate) fn limits(&self) -> (Duration, Duration) {
        let or = |given: Duration, default| if given.is_zero() { default } else { given };
        (or(self.timeout, Self::TIMEOUT), or(self.interval, Self::INTERVAL))
    }
}

/// Parses a boolean like Go's `strconv.ParseBool`. Anything else is false, as in the reference.
#[expect(clippy::unnecessary_wraps, reason = "clap wants a fallible parser")]
fn lenient_bool(text: &str) -> Result<bool, std::convert::Infallible> {
    Ok(matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True"))
}
