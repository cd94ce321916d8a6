//! The routing sidecar against what the reference's was recorded to do, with the recordings' own replayer.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use crate::{program::run, world::turn};

/// Arguments of connectors and modes that this sidecar refuses by name: their recordings are not replayed. That they are
/// refused is tested beside the flags.
const OTHERS: [&str; 7] = [
    "--kv-connector=s",
    "--kv-connector=m",
    "--kv-connector=o",
    "--ec-connector=ec-",
    "--enable-p2p-pull",
    "--decode-chunk-size=2",
    "kv-connector: sglang",
];

/// Steps that are part of the contract and answered in another way on purpose: rows of COMPATIBILITY.md.
const DIFFERENT: [&str; 7] = [
    "dp-header step 2",
    "hdr-list step 4",
    "hyg-trailers step 1",
    "hyg-trailers step 2",
    "large-headers step 2",
    "metrics-port step 2",
    "pass-close-delimited step 4",
];

/// Unpacks the recordings and their replayer; nothing ends the test early.
fn recordings(scratch: &TempDir) -> Option<PathBuf> {
    let needs = Command::new("python3").args(["-c", "import yaml"]).output();
    if !needs.is_ok_and(|output| output.status.success()) {
        longboat_untested::skipped("no python3 with PyYAML");
        return None;
    }
    let folder = scratch.path().join("recordings");
    longboat_golden::part("sidecar").unpack(&folder);
    Some(folder)
}

/// The recordings of the default connector, and of no mode that is refused.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .filter(|path| {
            let text = fs::read_to_string(path).unwrap();
            text.lines().take_while(|line| !line.starts_with("steps:")).all(|line| {
                !line.starts_with("  - --moriio-") && OTHERS.iter().all(|other| !line.contains(other))
            })
        })
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

#[test]
#[expect(clippy::print_stderr, reason = "how much is equal is what the test is for")]
fn the_default_connector_does_what_was_recorded_but_for_what_is_listed() {
    let scratch = TempDir::new().unwrap();
    let Some(folder) = recordings(&scratch) else { return };
    let _turn = turn();
    let names = names(&folder);
    assert!(names.len() > 90, "{}", names.len());
    let list = scratch.path().join("names");
    fs::write(&list, format!("- {}\n", names.join("\n- "))).unwrap();
    let mut replay = Command::new("python3");
    replay
        .arg(folder.join("replay.py"))
        .args(["-v", "-q", "-j", "2", "--dir"])
        .arg(&folder)
        .arg("--names")
        .arg(&list)
        .env("SIDECAR_CMD", format!("{} sidecar", env!("CARGO_BIN_EXE_longboat")))
        .env("RUN_DIR", scratch.path().join("run"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env_remove("LONGBOAT_POD_IP");
    let ended = run(&mut replay);
    let summary = ended.stdout.lines().find(|line| line.starts_with("SUMMARY "));
    eprintln!("{} scenarios: {}", names.len(), summary.unwrap_or(&ended.stderr));
    assert!(summary.is_some(), "{ended:#?}");
    let errors: Vec<_> = ended.stdout.lines().filter(|line| line.contains(" ERROR ")).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let different: BTreeSet<&str> = ended
        .stdout
        .lines()
        .filter_map(|line| line.split_once(": different (contract: "))
        .map(|(step, _)| step)
        .collect();
    assert_eq!(different, BTreeSet::from(DIFFERENT), "{}", ended.stdout);
}
