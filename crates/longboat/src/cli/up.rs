//! The command line of `up`.

use std::{convert::Infallible, path::PathBuf, str::FromStr};

use clap::{Args, ValueHint, value_parser};
use longboat_local::Picking;

use super::{manifests::ManifestArgs, numbers::MAX_TIMEOUT_SECONDS};

/// Arguments of `up`.
#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) manifests: ManifestArgs,
    /// Send this prompt when the services are ready, and stream the answer to stdout
    #[arg(long, value_name = "TEXT", value_parser = prompt)]
    pub(crate) prompt: Option<String>,
    /// Exit when the services are ready and the prompt is answered
    #[arg(long)]
    pub(crate) once: bool,
    /// Follow the manifests: print what an edit changes, and apply it. An edit with errors changes nothing
    #[arg(long, conflicts_with = "once")]
    pub(crate) watch: bool,
    /// Port of the gateway on 127.0.0.1; 0 for any free port
    #[arg(long, default_value_t = 8080)]
    pub(crate) port: u16,
    #[command(flatten)]
    pub(crate) local: LocalArgs,
}

/// The value of `--engine`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EngineChoice {
    /// The CPU engine if this machine can run the models, else the simulator.
    Auto,
    /// The CPU engine. It is an error if this is not possible.
    Cpu,
    /// The simulator.
    Simulator,
    /// A shell command line.
    Command(String),
}

/// Arguments of a local cluster.
#[derive(Debug, Args)]
pub(crate) struct LocalArgs {
    /// Further host that the gateway accepts, besides loopback names and addresses, and hostnames of routes; repeatable
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// Origin whose web pages may use the gateway, such as `http://localhost:3000`, or `*` for any; repeatable
    #[arg(long, value_name = "ORIGIN", value_parser = origin)]
    pub(crate) cors_origin: Vec<String>,
    /// Port of the API server on 127.0.0.1; 0 for any free port
    #[arg(long, default_value_t = 0)]
    pub(crate) api_port: u16,
    /// Port of the dashboard on 127.0.0.1; 0 for any free port
    #[arg(long, default_value_t = 0)]
    pub(crate) dashboard_port: u16,
    /// Folder that keeps objects between runs; a temporary folder if not given
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) state: Option<PathBuf>,
    /// Engine: `cpu` runs the model, `sim` makes up text, `auto` runs the model if this machine can; anything else is a
    /// command that takes the arguments of `vllm serve`, or the path of another engine's `llama-server` or `trtllm-serve`
    #[arg(long, value_name = "auto|cpu|sim|CMD", env = "LONGBOAT_ENGINE", default_value = "auto")]
    pub(crate) engine: EngineChoice,
    /// Maximum download of `--engine auto`, in GB
    #[arg(long, value_name = "GB", default_value_t = 4)]
    pub(crate) max_download: u64,
    /// Label of the node, such as `topology.kubernetes.io/zone=a`; pods that select another value wait; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) node_label: Vec<(String, String)>,
    /// Let pods wait for the node labels that they select, instead of pretending that the node has them
    #[arg(long)]
    pub(crate) strict_scheduling: bool,
    /// Run pods without mount namespaces: paths of volumes are rewritten where manifests name them
    #[arg(long)]
    pub(crate) rewrite_paths: bool,
    /// Command that runs in place of an image, such as `echo-basic=/usr/local/bin/echo-basic`, for containers without a
    /// command; the image is named without registry, folders and tag; repeatable
    #[arg(long, value_name = "IMAGE=CMD", value_parser = image)]
    pub(crate) image: Vec<(String, Vec<String>)>,
    /// Where endpoint pickers run
    #[arg(long, value_enum, default_value_t = Picking::Pods)]
    pub(crate) picking: Picking,
    /// Folder in which pickers write traces of their requests for `longboat simulate --trace`: times, lengths and hashes, no
    /// prompts. One file for each pool; needs `--picking pods`
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) write_traces: Option<PathBuf>,
    /// Use only models on this machine
    #[arg(long)]
    pub(crate) offline: bool,
    /// Time limit in seconds until all services are ready, counted from the start or from the last progress of a download
    #[arg(long, default_value_t = 300, value_name = "SECONDS", value_parser = value_parser!(u64).range(..=MAX_TIMEOUT_SECONDS))]
    pub(crate) timeout: u64,
}

// === impl EngineChoice ===

impl FromStr for EngineChoice {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "auto" => Self::Auto,
            "cpu" => Self::Cpu,
            "sim" => Self::Simulator,
            command => Self::Command(command.to_owned()),
        })
    }
}

/// Checks that `text` is an origin as browsers write it: a scheme, a host, an optional port, and nothing else.
fn origin(text: &str) -> Result<String, String> {
    let is_origin = text.split_once("://").is_some_and(|(scheme, host)| {
        !scheme.is_empty() && !host.is_empty() && !host.contains(['/', '?', '#', '@', ' '])
    });
    if text == "*" || is_origin {
        return Ok(text.to_owned());
    }
    Err("expected an origin such as `http://localhost:3000`, without a path, or `*`".into())
}

/// Parses a label. The API server checks its characters.
fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected a label such as `topology.kubernetes.io/zone=a`".into()),
    }
}

/// Parses the command that runs in place of an image.
fn image(text: &str) -> Result<(String, Vec<String>), String> {
    let (name, command) = text.split_once('=').unwrap_or_default();
    let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    if name.is_empty() || name.contains(['/', ':', '@']) || command.is_empty() {
        return Err(
            "expected the name of an image without registry, folders and tag, and a command, such as \
                    `echo-basic=/usr/local/bin/echo-basic`"
                .into(),
        );
    }
    Ok((name.to_owned(), command))
}

/// Parses a prompt. No model has an answer to an empty one.
pub(super) fn prompt(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("expected a prompt that is not empty".into()),
        _ => Ok(text.to_owned()),
    }
}
