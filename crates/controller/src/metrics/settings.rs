//! Flags of the metrics server.

use crate::health::Listen;

/// Settings of the metrics server.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct MetricsSettings {
    /// Address of /metrics; 0 turns it off.
    #[arg(
        long = "metrics-addr",
        visible_alias = "metrics-bind-address",
        default_value_t = Listen::At(":8443".to_owned()),
        value_name = "ADDRESS"
    )]
    pub address: Listen,

    /// Serve metrics over HTTPS, and only to clients that may `get` the path `/metrics`. If false, every client that
    /// reaches the port can read them.
    #[arg(
        long = "metrics-secure",
        num_args = 0..=1,
        require_equals = true,
        default_value = "true",
        default_missing_value = "true",
        value_name = "BOOL"
    )]
    pub secure: bool,
}

impl Default for MetricsSettings {
    /// Off, because a program that embeds a controller chooses the address itself.
    fn default() -> Self {
        Self { address: Listen::Off, secure: true }
    }
}
