//! Tests that every fault is found: seeds each into a world without faults.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

mod installation;
mod proof;
mod router;
mod scaling;
mod serving;
mod workloads;
mod world;

use std::{fs, path::Path};

use longboat_doctor::to_text;

use crate::world::with;

#[test]
fn where_all_is_well_nothing_is_said() {
    assert_eq!(to_text(&with(|_| {})), "");
}

/// A fault without a test might never be found.
#[test]
fn every_fault_of_the_source_is_seeded_here() {
    let mut words = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            for call in text.split("Cause::new(").skip(1) {
                let word = call.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next());
                words.push(word.unwrap_or_else(|| panic!("{}: no word", path.display())).to_owned());
            }
        }
    }
    let here = [
        include_str!("installation.rs"),
        include_str!("proof.rs"),
        include_str!("router.rs"),
        include_str!("scaling.rs"),
        include_str!("serving.rs"),
        include_str!("workloads.rs"),
    ]
    .concat();
    words.retain(|word| !here.contains(&format!("\"{word}\"")));
    assert!(words.is_empty(), "without a test: {words:?}");
}
