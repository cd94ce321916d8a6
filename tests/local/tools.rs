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
    assert!(std::env::var_os("CI").is_none(), "{} is missing: run scripts/tools.sh", tool.display());
    skipped(&tool);
    None
}

#[expect(clippy::print_stderr, reason = "a test that did not run must say so")]
fn skipped(tool: &Path) {
    eprintln!("SKIPPED: {} is missing: run scripts/tools.sh", tool.display());
}
