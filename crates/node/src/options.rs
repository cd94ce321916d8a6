//! Options of a node.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use longboat_api::engine::VLLM;

use crate::container::roles;
use crate::controllers::QueueMetrics;

/// How to start a node.
#[expect(clippy::struct_excessive_bools, reason = "independent settings")]
#[derive(Debug, Clone)]
pub struct Options {
    /// The name of the Node object.
    pub name: String,
    /// The `longboat` executable. Containers run it under the names of the programs that its roles replace, and the node
    /// runs its `reaper` role.
    pub executable: PathBuf,
    /// The folder for pods, logs, claims and `bin`. Keep its path short: the path of a socket in it has at most 108 bytes.
    pub state_dir: PathBuf,
    /// Whether to remove `state_dir` when the node ends, even if it is killed.
    pub remove_state_dir: bool,
    /// The program that runs as `vllm`.
    pub engine: Engine,
    /// Why this engine was chosen, for the annotation of the pods that run it; may be empty.
    pub engine_reason: String,
    /// Whether models may only come from this machine.
    pub offline: bool,
    /// How pods reach the API server.
    pub api: ApiAccess,
    /// The range of pod addresses, which are loopback addresses.
    pub address_range: RangeInclusive<Ipv4Addr>,
    /// Labels of the node, besides its own.
    pub labels: BTreeMap<String, String>,
    /// Whether pods wait for a node with the labels that they select. Otherwise the node stands in for such nodes.
    pub strict_scheduling: bool,
    /// Whether paths of volumes are rewritten in manifests, although pods could have mount namespaces.
    pub rewrite_paths: bool,
    /// Whether the gateway of this machine picks in place of the pickers' processes, which then leave it the ports of their pods.
    pub gateway_picks: bool,
    /// The folder in which pickers write traces of their requests. It must be absolute.
    pub traces: Option<PathBuf>,
    /// Commands that run in place of images, for containers without a command: by the name of the image's repository, without
    /// registry, folders and tag.
    pub images: BTreeMap<String, Vec<String>>,
    /// Returns how many requests wait for a workload, for its autoscaler.
    pub queue: QueueMetrics,
    /// Periods and limits; the defaults are those of Kubernetes.
    pub timing: Timing,
}

impl Options {
    /// Creates options with default values. The folder and the access to the API server must still be set.
    pub fn new(executable: impl Into<PathBuf>) -> Self {
        Self {
            name: "longboat-local".to_owned(),
            executable: executable.into(),
            state_dir: PathBuf::new(),
            remove_state_dir: false,
            engine: Engine::Simulator,
            engine_reason: String::new(),
            offline: false,
            api: ApiAccess::default(),
            address_range: Ipv4Addr::new(127, 64, 0, 1)..=Ipv4Addr::new(127, 64, 255, 254),
            labels: BTreeMap::new(),
            strict_scheduling: false,
            rewrite_paths: false,
            gateway_picks: false,
            traces: None,
            images: BTreeMap::new(),
            queue: QueueMetrics::default(),
            timing: Timing::default(),
        }
    }
}

/// The annotation of pods that run an engine. Its value says which program runs as the engine on this machine, and why.
pub const ENGINE_ANNOTATION: &str = "longboat.dev/engine";

/// The program that runs as `vllm` in containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Engine {
    /// The simulator role of the `longboat` executable; model weights are not fetched.
    Simulator,
    /// The CPU engine, a separate program that takes the arguments of `vllm` and finds the pod's address itself.
    Cpu(PathBuf),
    /// A shell command line. It runs in place of the engine's server that it starts, and of `vllm` if it starts another program.
    /// It gets the arguments of that server, and also `--host <pod address>`.
    Command(String),
}

// === impl Engine ===

impl Engine {
    /// Returns the name of the kind of engine, as in annotations.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Simulator => "simulator",
            Self::Cpu(_) => "cpu",
            Self::Command(_) => "command",
        }
    }

    /// Returns the label of the engine in whose place this one runs.
    pub(crate) fn label(&self) -> &'static str {
        let Self::Command(command) = self else { return VLLM.label };
        let program = command.split_whitespace().next().and_then(|word| word.rsplit('/').next());
        let server = roles::SERVERS.iter().find(|server| Some(server.program) == program);
        server.map_or(VLLM.label, |server| server.label)
    }
}

/// How pods reach the API server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ApiAccess {
    /// For example `https://127.0.0.1:6443`.
    pub url: String,
    /// The CA certificate of the server; `None` for plain HTTP.
    pub ca_pem: Option<String>,
}

/// Periods and limits of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// The wait before the second restart of a container. It doubles with each further restart. Kubernetes: 10 s.
    pub backoff_initial: Duration,
    /// The longest wait before a restart. Kubernetes: 5 min.
    pub backoff_max: Duration,
    /// How long a container must run to reset the wait to the shortest one. Kubernetes: 10 min.
    pub backoff_reset: Duration,
    /// The interval between attempts to prepare a container that could not be prepared.
    pub prepare_retry: Duration,
    /// The interval at which volumes of running pods are updated from their ConfigMaps and Secrets. Kubernetes: about 1 min.
    pub volume_sync: Duration,
    /// The interval at which the progress of a download is read and written to the pod's status. The first reading comes
    /// after a fifth of this.
    pub progress: Duration,
    /// The shortest time limit of a liveness probe. Kubernetes: the limit of the manifest, by default 1 s, which a healthy
    /// container can miss when all processes of a service start on one machine.
    pub liveness_patience: Duration,
    /// The first wait between probes of a container that was never ready. It grows to the period in the manifest.
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
            liveness_patience: Duration::from_secs(15),
            early_probe: Duration::from_millis(20),
        }
    }
}
