//! The command line of `up`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::ManifestArgs;
use crate::up::engine::EngineChoice;

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

/// Checks for an origin as browsers write it: a scheme and a host, optionally a port, and nothing else.
fn origin(text: &str) -> Result<String, String> {
    let is_origin = text.split_once("://").is_some_and(|(scheme, host)| {
        !scheme.is_empty() && !host.is_empty() && !host.contains(['/', '?', '#', '@', ' '])
    });
    if text == "*" || is_origin {
        return Ok(text.to_owned());
    }
    Err("expected an origin such as `http://localhost:3000`, without a path, or `*`".into())
}
