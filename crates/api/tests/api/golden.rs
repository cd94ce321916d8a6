//! Where the recordings and the contract are: outside of the repository.

use std::path::{Path, PathBuf};

/// The folder `name` of the recordings, or none (with a loud note) where they are not there. In CI they must be.
pub(crate) fn folder(name: &str) -> Option<PathBuf> {
    found("LONGBOAT_GOLDEN", "golden", name)
}

/// The file `name` of the contract, likewise.
pub(crate) fn contract(name: &str) -> Option<PathBuf> {
    found("LONGBOAT_CONTRACT", "contract", name)
}

fn found(variable: &str, folder: &str, name: &str) -> Option<PathBuf> {
    let root = std::env::var_os(variable).map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(folder),
        PathBuf::from,
    );
    let path = root.join(name);
    if path.exists() {
        return Some(path);
    }
    assert!(std::env::var_os("CI").is_none(), "nothing at {}: set {variable}", path.display());
    note(&format!("SKIPPED: nothing at {}", path.display()));
    None
}

#[expect(clippy::print_stderr, reason = "a test that checks nothing says so")]
fn note(text: &str) {
    eprintln!("{text}");
}
