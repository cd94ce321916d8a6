//! Where the recordings are.

use std::path::{Path, PathBuf};

/// The folder `name` of the recordings, or none (with a loud note) where they are not there. In CI they must be.
pub(crate) fn folder(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("LONGBOAT_GOLDEN")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/golden"), PathBuf::from);
    let folder = root.join(name);
    if folder.exists() {
        return Some(folder);
    }
    assert!(std::env::var_os("CI").is_none(), "no recordings at {}", folder.display());
    note(&format!("SKIPPED: no recordings at {}", folder.display()));
    None
}

#[expect(clippy::print_stderr, reason = "a test that checks nothing says so")]
fn note(text: &str) {
    eprintln!("{text}");
}
