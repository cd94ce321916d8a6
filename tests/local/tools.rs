//! Programs that cargo does not bring: `scripts/tools.sh` fetches them.

use std::path::{Path, PathBuf};

/// Stock kubectl; none ends the test early.
pub(crate) fn kubectl() -> Option<PathBuf> {
    tool("bin/kubectl")
}

/// A Python with the `openai` package; none ends the test early.
pub(crate) fn python() -> Option<PathBuf> {
    tool("python/bin/python3")
}

/// The repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// What is at this path of the folder of tools; nothing ends the test early.
pub(crate) fn tool(path: &str) -> Option<PathBuf> {
    let tool = root().join(".cache").join(path);
    if tool.exists() {
        return Some(tool);
    }
    longboat_untested::skipped(&format!("no .cache/{path}"));
    None
}
