//! Runs `longboat up`.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) use crate::program::{Ended, Running, run};
use crate::{
    processes, tools,
    wait::{LIMIT, until, within},
};

/// The model of the example.
pub(crate) const MODEL: &str = "Qwen/Qwen2.5-0.5B-Instruct";

/// Returns the path of the README's manifest.
pub(crate) fn example() -> PathBuf {
    tools::root().join("examples/single-node/service.yaml")
}

/// Returns the command `longboat up` with the simulator, unless arguments say otherwise, and with temporary files in `folder`.
pub(crate) fn up(folder: &Path) -> Command {
    longboat("up", folder)
}

/// Returns the command `longboat VERB`, in the same environment.
pub(crate) fn longboat(verb: &str, folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longboat"));
    command
        .arg(verb)
        .env("LONGBOAT_ENGINE", "sim")
        .env("TMPDIR", folder)
        .env_remove("LONGBOAT_MODELS")
        .env_remove("LONGBOAT_API_KEY")
        .env_remove("RUST_LOG")
        .env_remove("LONGBOAT_LOG");
    command
}

/// Runs `longboat up` with these arguments to its end.
pub(crate) fn up_to_its_end(arguments: &[&str]) -> Ended {
    let folder = TempDir::new().unwrap();
    run(up(folder.path()).args(arguments))
}

/// A running `longboat up` whose services are ready.
#[derive(Debug)]
pub(crate) struct LocalCluster {
    pub(crate) running: Running,
    /// The folder of temporary files.
    pub(crate) folder: TempDir,
    pub(crate) kubeconfig: PathBuf,
    /// `status.url` of the first service.
    pub(crate) url: String,
}

// === impl LocalCluster ===

impl LocalCluster {
    /// Runs `longboat up` with these arguments, and waits until its services are ready.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_logging("", arguments)
    }

    /// Like [`LocalCluster::start`]. The process and its pods log by this filter, if it is not empty.
    pub(crate) fn start_logging(filter: &str, arguments: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let mut command = up(folder.path());
        if !filter.is_empty() {
            command.env("LONGBOAT_LOG", filter);
        }
        Self::launch(command.args(arguments), folder, LIMIT)
    }

    /// Runs a command that is made by [`up`] for this folder, and waits as long until its services are ready.
    pub(crate) fn launch(command: &mut Command, folder: TempDir, limit: Duration) -> Self {
        command.args(["--port", "0"]).stdin(Stdio::null());
        Self::serving(Running::start(command), folder, limit)
    }

    /// Returns the world that read-only tests share. Static variables are never dropped, so a shell ends the world: the shell
    /// waits for its standard input to close, which happens when this process ends.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<LocalCluster> = OnceLock::new();
        SHARED.get_or_init(|| {
            let folder = TempDir::new().unwrap();
            let mut command = Command::new("sh");
            command
                .args(["-c", r#""$@" & read -r end; kill $!; wait; rm -rf "$TMPDIR""#, "sh"])
                .arg(env!("CARGO_BIN_EXE_longboat"))
                .args(["up", "--port", "0"])
                .arg(example())
                .env("LONGBOAT_ENGINE", "sim")
                .env("TMPDIR", folder.path())
                .stdin(Stdio::piped());
            Self::serving(Running::start(&mut command), folder, LIMIT)
        })
    }

    fn serving(mut running: Running, folder: TempDir, limit: Duration) -> Self {
        let after = |text: &str, mark: &str| {
            let found = text.lines().find_map(|line| line.split_once(mark))?;
            Some(found.1.trim().to_owned())
        };
        let kubeconfig = within(limit, "`up` says how to go on", || {
            let said = running.stderr();
            assert!(!running.has_ended() && !said.contains("error: "), "`up` failed:\n{said}");
            after(&said, "export KUBECONFIG=").filter(|_| said.contains("Ctrl-C"))
        });
        let url = after(&running.stderr(), " serves at ").unwrap_or_default();
        Self { running, folder, kubeconfig: kubeconfig.trim_matches('\'').into(), url }
    }

    /// Returns the `LONGBOAT_NODE_ID=…` that all processes of the world have in their environment.
    pub(crate) fn node_id(&self) -> String {
        until("a child of `up`", || processes::node_id(self.running.pid()))
    }

    /// Returns a kubectl command for this world.
    pub(crate) fn kubectl(&self) -> Command {
        let mut command = Command::new(tools::root().join(".cache/bin/kubectl"));
        let limit = format!("--request-timeout={}s", LIMIT.as_secs());
        command.env("KUBECONFIG", &self.kubeconfig).env("HOME", self.folder.path()).arg(limit);
        command
    }

    /// Runs kubectl with these arguments.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        run(self.kubectl().args(arguments))
    }

    /// Runs kubectl and returns its standard output. Panics if it fails.
    pub(crate) fn ask(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert!(ended.status.success(), "kubectl {arguments:?}: {ended:#?}");
        ended.stdout
    }

    /// Gets an object or a list as JSON.
    pub(crate) fn object(&self, arguments: &[&str]) -> Value {
        let text = self.ask(&[&["get", "-o", "json"], arguments].concat());
        serde_json::from_str(&text).unwrap()
    }

    /// Writes a manifest into the world's folder. Returns its path.
    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }
}
