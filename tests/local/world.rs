//! Running `longboat up`.

use std::{
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, OnceLock},
    thread::{self, JoinHandle},
};

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    processes, tools,
    wait::{LIMIT, until},
};

/// The model of the example.
pub(crate) const MODEL: &str = "Qwen/Qwen2.5-0.5B-Instruct";

/// One test at a time: hold this to the end of the test.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock()
}

/// The manifest of README.
pub(crate) fn example() -> PathBuf {
    tools::root().join("examples/single-node.yaml")
}

/// What a program left when it ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

// === impl Ended ===

impl Ended {
    /// Standard output of what must have gone well.
    pub(crate) fn ok(self) -> String {
        assert!(self.status.success(), "{self:#?}");
        self.stdout
    }
}

/// A program that runs, with what it has said so far.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    stdout: Arc<Mutex<String>>,
    stderr: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
}

// === impl Running ===

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (stdout, first) = collect(child.stdout.take().unwrap());
        let (stderr, second) = collect(child.stderr.take().unwrap());
        Self { child, stdout, stderr, readers: vec![first, second] }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn stdout(&self) -> String {
        self.stdout.lock().clone()
    }

    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().clone()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ended {
        let status = until("the end of the program", || self.child.try_wait().unwrap());
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        Ended { status, stdout: self.stdout(), stderr: self.stderr() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // What `up` leaves in this way, its reaper kills.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program to its end.
pub(crate) fn run(command: &mut Command) -> Ended {
    Running::start(command.stdin(Stdio::null())).end()
}

fn collect(source: impl Read + Send + 'static) -> (Arc<Mutex<String>>, JoinHandle<()>) {
    let text = Arc::new(Mutex::new(String::new()));
    let sink = text.clone();
    let reader = thread::spawn(move || {
        let mut source = BufReader::new(source);
        let mut line = Vec::new();
        while source.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            sink.lock().push_str(&String::from_utf8_lossy(&line));
            line.clear();
        }
    });
    (text, reader)
}

/// `longboat up` that will keep its temporary files in `folder`, its ports any free ones.
pub(crate) fn up(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longboat"));
    command.arg("up").env("TMPDIR", folder).env_remove("RUST_LOG").env_remove("LONGBOAT_LOG");
    command
}

/// `longboat up` to its end, with these arguments.
pub(crate) fn up_to_its_end(arguments: &[&str]) -> Ended {
    let folder = TempDir::new().unwrap();
    run(up(folder.path()).args(arguments))
}

/// A world that serves.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) running: Running,
    /// Where it keeps temporary files.
    pub(crate) folder: TempDir,
    pub(crate) kubeconfig: PathBuf,
    /// `status.url` of the first service.
    pub(crate) url: String,
}

// === impl World ===

impl World {
    /// Starts one with these arguments and waits until its services are ready.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let mut command = up(folder.path());
        command.args(["--port", "0"]).args(arguments).stdin(Stdio::null());
        Self::serving(Running::start(&mut command), folder)
    }

    /// The world that tests share which leave it as they found it. It ends with this process: a shell waits for that
    /// at the other end of a pipe, since nothing in a static variable is ever dropped.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: OnceLock<World> = OnceLock::new();
        SHARED.get_or_init(|| {
            let folder = TempDir::new().unwrap();
            let mut command = Command::new("sh");
            command
                .args(["-c", r#""$@" & read -r end; kill $!; wait; rm -rf "$TMPDIR""#, "sh"])
                .arg(env!("CARGO_BIN_EXE_longboat"))
                .args(["up", "--port", "0"])
                .arg(example())
                .env("TMPDIR", folder.path())
                .stdin(Stdio::piped());
            Self::serving(Running::start(&mut command), folder)
        })
    }

    fn serving(mut running: Running, folder: TempDir) -> Self {
        let after = |text: &str, mark: &str| {
            let found = text.lines().find_map(|line| line.split_once(mark))?;
            Some(found.1.trim().to_owned())
        };
        let kubeconfig = until("`up` says how to go on", || {
            let said = running.stderr();
            assert!(!running.has_ended() && !said.contains("error: "), "`up` failed:\n{said}");
            after(&said, "export KUBECONFIG=").filter(|_| said.contains("Ctrl-C"))
        });
        let url = after(&running.stderr(), " serves at ").unwrap_or_default();
        Self { running, folder, kubeconfig: kubeconfig.into(), url }
    }

    /// `LONGBOAT_NODE_ID=…` of everything that runs in it.
    pub(crate) fn node_id(&self) -> String {
        until("a child of `up`", || processes::node_id(self.running.pid()))
    }

    /// kubectl for this world.
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

    /// Standard output of a kubectl that must succeed.
    pub(crate) fn ask(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert!(ended.status.success(), "kubectl {arguments:?}: {ended:#?}");
        ended.stdout
    }

    /// An object, or a list, as JSON.
    pub(crate) fn object(&self, arguments: &[&str]) -> Value {
        let text = self.ask(&[&["get", "-o", "json"], arguments].concat());
        serde_json::from_str(&text).unwrap()
    }

    /// Writes a manifest into the world's own folder.
    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }
}
