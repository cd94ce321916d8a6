//! Finds and builds the program that runs models on the CPU.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, bail};
use longboat_node::container::is_program;
use tokio::process::Command;

const NAME: &str = "longboat-engine";
/// Without this feature the package has no program (its `Cargo.toml` says why).
const FEATURE: &str = "llguidance";
/// What the names of the variables begin with that `cargo run` sets.
const OF_CARGO_RUN: [&str; 3] = ["CARGO_MANIFEST_", "CARGO_PKG_", "OUT_DIR"];

/// Finds the program beside this executable or in PATH.
pub(crate) fn find() -> Option<PathBuf> {
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).map(|folder| folder.join(NAME));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|folder| folder.join(NAME));
    beside.into_iter().chain(in_path).find(|program| is_program(program))
}

/// Returns the message for a missing program.
pub(crate) fn missing() -> &'static str {
    "program `longboat-engine` not found in the folder of `longboat` or in PATH: build it with `cargo build -p \
     longboat-engine --features llguidance`"
}

/// Asks the program whether this machine can serve a model, and returns its description of the model. `bytes` is the size of
/// the weights, if they are not in the folder yet.
///
/// # Errors
/// If it cannot. The error is the reason.
pub(crate) async fn check(program: &Path, model: &Path, bytes: Option<u64>) -> anyhow::Result<String> {
    let mut command = Command::new(program);
    command.arg("check").arg(model).args(bytes.map(|bytes| bytes.to_string())).kill_on_drop(true);
    let output = command.output().await.with_context(|| format!("cannot start `{}`", program.display()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let error = text(&output.stderr);
    bail!("{}", error.strip_prefix("error: ").unwrap_or(&error))
}

/// A `cargo` that can build the program beside this executable. It exists if `cargo run` started this process.
pub(crate) struct Builder {
    cargo: PathBuf,
    package: PathBuf,
    release: bool,
}

// === impl Builder ===

impl Builder {
    /// Returns the builder of this process, if `cargo run` started it with one of the two usual profiles.
    pub(crate) fn of_this_process() -> Option<Self> {
        let cargo = std::env::var_os("CARGO")?.into();
        let package: PathBuf = std::env::var_os("CARGO_MANIFEST_DIR")?.into();
        let own = std::env::current_exe().ok()?;
        let profile = own.parent()?.file_name()?.to_str()?;
        let known = package.join("../engine/Cargo.toml").is_file() && ["debug", "release"].contains(&profile);
        known.then(|| Self { cargo, package, release: profile == "release" })
    }

    /// Builds the program. cargo prints the progress.
    pub(crate) async fn build(&self) -> anyhow::Result<PathBuf> {
        let mut command = Command::new(&self.cargo);
        command.args(["build", "--locked", "--package", NAME, "--features", FEATURE]);
        if self.release {
            command.arg("--release");
        }
        // `cargo run` describes this package to this process. The build script of `ring` would see another environment than before, and
        // cargo would build `ring` and all crates above it again: now, and for the next command as well.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if OF_CARGO_RUN.iter().any(|prefix| text.starts_with(prefix)) {
                command.env_remove(name);
            }
        }
        let status =
            command.current_dir(&self.package).stdin(Stdio::null()).kill_on_drop(true).status().await?;
        match find() {
            Some(program) if status.success() => Ok(program),
            _ => anyhow::bail!("cargo could not build `{NAME}`"),
        }
    }
}
