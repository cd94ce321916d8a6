//! Engines, pickers and an Envoy, each in its own process.

use std::{
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

use parking_lot::{Mutex, MutexGuard};
use serde_json::json;
use tempfile::TempDir;

use crate::{envoy, http, wait::until};

/// Returns a command of the built binary.
pub(crate) fn longboat() -> Command {
    Command::new(env!("CARGO_BIN_EXE_longboat"))
}

/// Lets tests take turns, because each has several processes and a machine may have only two cores.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock()
}

/// A process that ends when this is dropped, or with the test process: shared worlds are never dropped.
pub(crate) struct Role {
    process: Child,
    /// A shell that kills the process when the shell's standard input closes.
    guard: Child,
}

impl Role {
    pub(crate) fn start(command: &mut Command) -> Self {
        let process =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut guard = Command::new("sh");
        guard.args(["-c", "cat > /dev/null; kill -9 \"$0\"", &process.id().to_string()]);
        Self { process, guard: guard.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Waits until the process has ended by itself.
    pub(crate) fn ended(&mut self) {
        until("the end of a process", || self.process.try_wait().unwrap());
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        // Ends the guard first: after the process has ended, its id may belong to another process.
        for child in [&mut self.guard, &mut self.process] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Simulated engines, and the discovery file from which pickers learn about them.
pub(crate) struct Pool {
    pub(crate) engines: Vec<SocketAddr>,
    folder: TempDir,
    roles: Vec<Role>,
}

impl Pool {
    /// Starts `count` engines that take the time `token` for each token.
    pub(crate) fn start(count: u8, token: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let (mut engines, mut roles) = (Vec::new(), Vec::new());
        for number in 1..=count {
            let address = SocketAddr::from(([127, 0, 5, number], envoy::free_port()));
            let (host, port) = (address.ip().to_string(), address.port().to_string());
            let mut command = longboat();
            command.args(["sim", "m", "--host", &host, "--port", &port, "--max-num-seqs", "64"]);
            command.args([
                "--max-model-len",
                "10000000",
                "--kv-cache-size",
                "1000000",
                "--inter-token-latency",
                token,
            ]);
            roles.push(Role::start(&mut command));
            engines.push(address);
        }
        for engine in &engines {
            until("an engine", || std::net::TcpStream::connect(engine).ok());
        }
        let pool = Self { engines, folder, roles };
        pool.know(&pool.engines);
        pool
    }

    /// Starts a decode engine behind a routing sidecar, and a prefill engine. Returns the pool of the sidecar's and the prefill
    /// engine's endpoints, in this order, and the decode engine's own address.
    pub(crate) fn disaggregated(sidecar: &[&str], engines: [&[&str]; 2]) -> (Self, SocketAddr) {
        let address = || SocketAddr::from(([127, 0, 0, 1], envoy::free_port()));
        let (front, decode, prefill) = (address(), address(), address());
        let start = |role: &[&str], at: SocketAddr, more: &[&str]| {
            let mut command = longboat();
            command.args(role).arg(format!("--port={}", at.port())).args(more);
            Role::start(command.env("LONGBOAT_POD_IP", "127.0.0.1"))
        };
        let behind = format!("--model-server-port={}", decode.port());
        let sidecar = [&[behind.as_str(), "--secure-proxy=false"], sidecar].concat();
        let roles = vec![
            start(&["sim", "m"], decode, engines[0]),
            start(&["sim", "m"], prefill, engines[1]),
            start(&["sidecar"], front, &sidecar),
        ];
        for address in [front, decode, prefill] {
            until("an engine", || std::net::TcpStream::connect(address).ok());
        }
        let pool = Self { engines: vec![front, prefill], folder: TempDir::new().unwrap(), roles };
        pool.know_as(&[(front, "decode"), (prefill, "prefill")]);
        (pool, decode)
    }

    /// Kills the engines. Pickers still know them.
    pub(crate) fn kill(&mut self) {
        self.roles.clear();
    }

    /// Writes these endpoints to the discovery file.
    pub(crate) fn know(&self, endpoints: &[SocketAddr]) {
        let all: Vec<_> = endpoints.iter().map(|endpoint| (*endpoint, "both")).collect();
        self.know_as(&all);
    }

    /// Like [`Pool::know`], with a role for each endpoint.
    fn know_as(&self, endpoints: &[(SocketAddr, &str)]) {
        let list: Vec<_> = endpoints
            .iter()
            .enumerate()
            .map(|(number, (endpoint, role))| {
                json!({"name": format!("e{number}"), "address": endpoint.ip(), "port": endpoint.port().to_string(),
                    "labels": {"llm-d.ai/role": role}})
            })
            .collect();
        std::fs::write(self.file(), json!({"endpoints": list}).to_string()).unwrap();
    }

    fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("endpoints.json")
    }
}

/// A picker process.
pub(crate) struct Picker {
    pub(crate) role: Role,
    pub(crate) address: SocketAddr,
    /// The URL of its metrics.
    pub(crate) page: String,
}

impl Picker {
    /// Starts a picker for a pool. `plugins` are lines of its configuration, including the profile.
    pub(crate) fn start(pool: &Pool, plugins: &str, flags: &[&str]) -> Self {
        Self::at(SocketAddr::from(([127, 0, 0, 1], envoy::free_port())), &pool.file(), plugins, flags)
    }

    fn at(address: SocketAddr, file: &Path, plugins: &str, flags: &[&str]) -> Self {
        let metrics = envoy::free_port();
        let config = format!(
            "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n\
             - {{type: file-discovery, parameters: {{path: '{}'}}}}\n{plugins}\n\
             dataLayer: {{discovery: {{pluginRef: file-discovery}}}}\n",
            file.display()
        );
        let mut command = longboat();
        command.args(["epp", "--bind-address=127.0.0.1", "--grpc-health-port=0"]);
        command.arg(format!("--grpc-port={}", address.port())).arg(format!("--metrics-port={metrics}"));
        command.args(flags).args(["--config-text", &config]);
        let role = Role::start(&mut command);
        let page = format!("http://127.0.0.1:{metrics}/metrics");
        until("a picker that knows its endpoints", || {
            let page = http::try_get(&page)?;
            let ready = page.lines().find(|line| line.starts_with("llm_d_epp_ready_endpoints"))?;
            (!ready.ends_with(" 0")).then_some(())
        });
        Self { role, address, page }
    }
}

/// Returns how many requests an engine has answered.
pub(crate) fn answered(engine: &str) -> f64 {
    let page = http::try_get(&format!("http://{engine}/metrics")).unwrap();
    let lines = page.lines().filter(|line| line.starts_with("vllm:request_success_total"));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// The reference's default scorers and weights.
pub(crate) const BLEND: &str = "- {type: queue-scorer}
- {type: kv-cache-utilization-scorer}
- {type: prefix-cache-scorer}
schedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer, weight: 2}, {pluginRef: kv-cache-utilization-scorer, weight: 2}, {pluginRef: prefix-cache-scorer, weight: 3}]}]";

/// Chooses two random endpoints.
pub(crate) const TWO: &str = "- {type: random-picker, parameters: {maxNumOfEndpoints: 2}}
schedulingProfiles: [{name: default, plugins: [{pluginRef: random-picker}]}]";

/// Sends every prompt to a prefill engine, like the configuration that KServe writes for such services.
pub(crate) const APART: &str = "- {type: disagg-headers-handler}
- {type: prefill-filter}
- {type: decode-filter}
- {type: queue-scorer}
- {type: always-disagg-pd-decider}
- {type: disagg-profile-handler, parameters: {deciders: {prefill: always-disagg-pd-decider}}}
schedulingProfiles: [{name: prefill, plugins: [{pluginRef: prefill-filter}, {pluginRef: queue-scorer}]}, {name: decode, plugins: [{pluginRef: decode-filter}, {pluginRef: queue-scorer}]}]";
