//! Options of a node.

use std::path::PathBuf;
use std::time::Duration;

use crate::address::AddressRange;

/// How to start a node.
#[derive(Debug, Clone)]
pub struct Options {
    /// The Node object's name.
    pub name: String,
    /// The `longboat` executable: containers run it under the names of the programs that its roles replace, and the
    /// node runs its `reaper` role.
    pub executable: PathBuf,
    /// Where pods, logs, claims and the `bin` folder live. Keep it short: socket paths under it have 108 bytes.
    pub state_dir: PathBuf,
    /// Remove `state_dir` when the node ends, also when it was killed.
    pub remove_state_dir: bool,
    /// What `vllm` is.
    pub engine: Engine,
    /// Why it is that, for the annotation of the pods that run it; may be empty.
    pub engine_reason: String,
    /// Whether models may be taken from this machine only.
    pub offline: bool,
    /// How pods reach the API server.
    pub api: ApiAccess,
    /// Where pod addresses come from.
    pub address_range: AddressRange,
    /// Periods and limits; the default is what Kubernetes has.
    pub timing: Timing,
}

impl Options {
    /// Options with the defaults for everything that has one.
    pub fn new(executable: impl Into<PathBuf>, state_dir: impl Into<PathBuf>, api: ApiAccess) -> Self {
        Self {
            name: "longboat-local".to_owned(),
            executable: executable.into(),
            state_dir: state_dir.into(),
            remove_state_dir: false,
            engine: Engine::Simulator,
            engine_reason: String::new(),
            offline: false,
            api,
            address_range: AddressRange::default(),
            timing: Timing::default(),
        }
    }
}

/// The annotation of pods that run `vllm`: what stands for it on this machine, and why.
pub const ENGINE_ANNOTATION: &str = "longboat.dev/engine";

/// What runs where a container runs `vllm`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Engine {
    /// The simulator role of the `longboat` executable; model weights are not fetched.
    Simulator,
    /// The CPU engine, a program of its own that takes the arguments of `vllm` and finds the pod's address itself.
    Cpu(PathBuf),
    /// This shell command line. It gets the arguments that `vllm` would get, and after a `serve` also
    /// `--host <pod address>`.
    Command(String),
}

// === impl Engine ===

impl Engine {
    /// The name of its kind, as annotations have it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Simulator => "simulator",
            Self::Cpu(_) => "cpu",
            Self::Command(_) => "command",
        }
    }
}

/// The API server as pods see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiAccess {
    /// For example `https://127.0.0.1:6443`.
    pub url: String,
    /// The authority that signed the server's certificate; none for plain HTTP.
    pub ca_pem: Option<String>,
}

/// Periods and limits of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// The wait before the second restart of a container; it doubles with each. Kubernetes: 10 s.
    pub backoff_initial: Duration,
    /// The longest wait before a restart. Kubernetes: 5 min.
    pub backoff_max: Duration,
    /// A container that ran this long starts over with the shortest wait. Kubernetes: 10 min.
    pub backoff_reset: Duration,
    /// How often a container that could not be prepared is tried again.
    pub prepare_retry: Duration,
    /// How often volumes of running pods are compared with their ConfigMaps and Secrets. Kubernetes: about 1 min.
    pub volume_sync: Duration,
    /// How often a download is asked how far it is, which goes into the pod's status; the first time after a fifth of this.
    pub progress: Duration,
    /// The first wait between probes of a container that was never ready; it grows to the manifest's period.
    pub early_probe: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            backoff_initial: Duration::from_secs(10),
            backoff_max: Duration::from_mins(5),
            backoff_reset: Duration::from_mins(10),
            prepare_retry: Duration::from_secs(1),
            volume_sync: Duration::from_secs(30),
            progress: Duration::from_secs(5),
            early_probe: Duration::from_millis(20),
        }
    }
}
