//! The files that say something about vLLM.

use std::{fs, path::Path};

/// Where they are.
pub(super) const FOLDERS: [&str; 6] = ["crates", "docs", "deploy", "presets", "examples", "benches"];

/// Returns path and text of each file at or below these paths of the repository, without those of tests, which may name what does
/// not exist.
pub(super) fn texts(paths: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for path in paths {
        collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path), &mut found);
    }
    found
}

fn collect(path: &Path, found: &mut Vec<(String, String)>) {
    if !path.is_dir() {
        // A picture is no text.
        found.extend(fs::read_to_string(path).ok().map(|text| (path.display().to_string(), text)));
        return;
    }
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        if !path.ends_with("tests") {
            collect(&path, found);
        }
    }
}
