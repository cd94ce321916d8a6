//! Compares the files of `deploy/` with the installation.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod helm;
mod kustomize;
#[path = "../../../../tests/local/tools.rs"]
#[expect(dead_code, reason = "shared with the tests of the binary, which need other tools")]
mod tools;

use std::{collections::BTreeMap, process::Command};

use longboat_install::files;
use serde_json::Value;

/// Objects by kind, namespace and name.
type Objects = BTreeMap<(String, String, String), Value>;

fn objects<'a>(all: impl IntoIterator<Item = &'a Value>) -> Objects {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut found = Objects::new();
    for object in all {
        let metadata = &object["metadata"];
        let identity = (text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"]));
        assert!(found.insert(identity.clone(), object.clone()).is_none(), "{identity:?} is there twice");
    }
    found
}

/// Runs a program, and parses its output into objects.
fn printed(command: &mut Command) -> Objects {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    objects(documents.iter().filter(|document| !document.is_null()))
}

/// Checks that the objects are equal. Prints only the differences, because whole CRDs would fill screens.
fn assert_same(what: &str, found: &Objects, wanted: &Objects) {
    let (have, want): (Vec<_>, Vec<_>) = (found.keys().collect(), wanted.keys().collect());
    assert_eq!(have, want, "{what}");
    for (identity, object) in found {
        let patch = json_patch::diff(&wanted[identity], object);
        assert!(patch.0.is_empty(), "{what}: {identity:?} differs: {patch}");
    }
}

#[test]
fn the_generated_files_are_current() {
    let deploy = tools::root().join("deploy");
    for file in files::all().unwrap() {
        let path = deploy.join(&file.path);
        assert!(
            std::fs::read_to_string(&path).unwrap_or_default() == file.text,
            "{} is not current: run `cargo run -p longboat-install --example deploy`",
            path.display()
        );
    }
}
