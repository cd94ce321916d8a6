//! Compares the routing sidecar with recordings of the reference's sidecar, using the recordings' own replayer.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

use crate::program::run;

/// Fields that the replayer compares and that differ on purpose: step, field, id of `compatibility.yaml`. The
/// test fails if another field differs, or if one of these is equal.
const DIFFERENT: [(&str, &str, &str); 9] = [
    ("dp-header step 2", "client_got.body", "unknown-rank"),
    ("hyg-trailers step 1", "client_got.trailers[0]", "answer-trailers"),
    ("hyg-trailers step 1", "decode_saw[0].trailers", "request-trailers-forwarded"),
    ("hyg-trailers step 2", "client_got.trailers", "answer-trailers"),
    ("large-headers step 2", "client_got.body", "long-headers"),
    ("large-headers step 2", "client_got.headers.content-type", "long-headers"),
    ("mc-stream step 1", "prefill_saw[0].body.json.min_tokens", "prefill-min-tokens"),
    ("metrics-port step 2", "client_got.headers.content-type", "engine-types"),
    ("pass-close-delimited step 4", "client_got.interim", "interim-answers"),
];

/// The replayer lists at most this many different fields of a part.
const TOLD: usize = 6;

/// Unpacks the recordings and their replayer. Returns `None`, and reports it, without PyYAML.
fn recordings(scratch: &TempDir) -> Option<PathBuf> {
    let needs = Command::new("python3").args(["-c", "import yaml"]).output();
    if !needs.is_ok_and(|output| output.status.success()) {
        longboat_golden::skipped("no python3 with PyYAML");
        return None;
    }
    let folder = scratch.path().join("recordings");
    longboat_golden::part("sidecar").unpack(&folder);
    Some(folder)
}

/// Returns the names of the recordings.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

/// Returns the fields that the replayer reports as different: step and field.
fn different(told: &str) -> BTreeSet<(String, String)> {
    let mut step = None;
    let mut fields = BTreeSet::new();
    for line in told.lines() {
        let Some(field) = line.strip_prefix("    ") else {
            step = line.split_once(": different (contract: ").map(|(step, _)| step);
            continue;
        };
        let (Some(step), Some((field, _))) = (step, field.split_once(": expected ")) else { continue };
        fields.insert((step.to_owned(), field.to_owned()));
    }
    fields
}

#[test]
fn each_difference_that_is_listed_has_an_entry() {
    for (_, _, id) in DIFFERENT {
        longboat_golden::compatibility::deviation(id);
    }
}

#[test]
fn differences_are_read_field_by_field() {
    let told = "a step 1: different (contract: client_got)\n    client_got.status: expected 1 got 2\n\
                b step 1: different (defect: client_got)\n    client_got.status: expected 1 got 2\n\
                c step 2: equal\n";
    assert_eq!(different(told), BTreeSet::from([("a step 1".into(), "client_got.status".into())]));
}

#[test]
#[expect(clippy::print_stderr, reason = "how much is equal is what the test is for")]
fn it_does_what_was_recorded_but_for_the_fields_that_are_listed() {
    let scratch = TempDir::new().unwrap();
    let Some(folder) = recordings(&scratch) else { return };
    let names = names(&folder);
    assert!(names.len() > 140, "{}", names.len());
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
    let found = different(&ended.stdout);
    let listed = DIFFERENT.map(|(step, field, _)| (step.to_owned(), field.to_owned())).into();
    assert_eq!(found, listed, "{}", ended.stdout);
    let mut parts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (step, field) in &found {
        let part = field.split(['.', '[', '#']).next().unwrap_or_default();
        *parts.entry((step, part)).or_default() += 1;
    }
    assert!(parts.values().all(|fields| *fields < TOLD), "a part may have more differences: {parts:?}");
}
