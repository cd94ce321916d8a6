//! Programs that cargo does not build: `scripts/tools.sh` fetches them.

use std::path::{Path, PathBuf};

/// Returns the path of stock kubectl, or `None`, after a report, if it is missing: the test then ends.
pub(crate) fn kubectl() -> Option<PathBuf> {
    tool("bin/kubectl")
}

/// Returns a Python with the `openai` package, or `None`, after a report, if it is missing.
pub(crate) fn python() -> Option<PathBuf> {
    tool("python/bin/python3")
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns a file of the folder of tools, or `None`, after a report, if it is missing.
pub(crate) fn tool(path: &str) -> Option<PathBuf> {
    let tool = root().join(".cache").join(path);
    if tool.exists() {
        return Some(tool);
    }
    longboat_golden::skipped(&format!("no .cache/{path}"));
    None
}
