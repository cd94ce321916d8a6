//! The sidecar in its own process, and its resource usage.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use tokio::net::TcpListener;

/// A sidecar process, which ends when this is dropped.
pub(crate) struct Sidecar {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Sidecar {
    /// Starts a sidecar before the engine on this port, and waits until it answers.
    pub(crate) async fn start(engine: u16) -> Self {
        // Cargo runs benches in the folder of their package, so relative paths start from the root of the repository.
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let program = std::env::var_os("LONGBOAT_BINARY")
            .map_or_else(|| std::env::current_exe().unwrap(), |binary| root.join(binary));
        let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let child = Command::new(program)
            .arg(crate::ROLE)
            .args([format!("--port={}", address.port()), format!("--model-server-port={engine}")])
            .arg("--secure-proxy=false")
            .envs([("RUST_LOG", "warn"), ("LONGBOAT_POD_IP", "127.0.0.1")])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let this = Self { child, address };
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        for _ in 0..1000 {
            if client.get(format!("http://{address}/health")).send().await.is_ok() {
                return this;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the sidecar does not answer");
    }

    /// The CPU time of all threads so far.
    pub(crate) fn cpu(&self) -> Duration {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let ran = |task: fs::DirEntry| {
            let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        };
        Duration::from_nanos(tasks.flatten().filter_map(ran).sum())
    }

    /// The peak resident memory, in bytes.
    pub(crate) fn peak(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
