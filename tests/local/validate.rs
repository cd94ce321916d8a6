//! `longboat validate`: findings on stdout, a summary on stderr, an exit code that scripts can use.

use std::{
    collections::HashMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    local_cluster::{Ended, run},
    tools,
};

fn validate(arguments: &[&str]) -> Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longboat"));
    command.arg("validate").args(arguments).env_remove("RUST_LOG").env_remove("LONGBOAT_LOG");
    run(&mut command)
}

fn findings(ended: &Ended) -> Vec<Value> {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:#?}"))
}

#[test]
fn the_examples_are_sound() {
    let entries = fs::read_dir(tools::root().join("examples")).unwrap();
    for folder in entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        let ended = validate(&[folder.to_str().unwrap()]);
        assert_eq!(ended.status.code(), Some(0), "{ended:#?}");
        assert!(ended.stdout.contains("LLMInferenceService default/"), "{ended:#?}");
        assert!(ended.stderr.contains("0 errors"), "{ended:#?}");
    }
}

#[test]
fn output_that_cannot_be_written_fails_and_a_reader_that_has_gone_does_not() {
    let service = tools::root().join("examples/single-node/service.yaml").display().to_string();
    let ended = |arguments: &[&str], stdout: Stdio| {
        let program = Command::new(env!("CARGO_BIN_EXE_longboat")).args(arguments).stdout(stdout).output();
        let ended = program.unwrap();
        (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
    };
    for (arguments, code) in [
        (&["render", &service][..], 1),
        (&["render", "-o", "json", &service], 1),
        (&["validate", &service], 1),
        (&["explain", &service], 1),
        (&["diff", "-o", "json", "--from", &service, &service], 2),
        (&["crds"], 1),
        (&["completion", "bash"], 1),
        (&["version"], 1),
        (&["--help"], 1),
    ] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (found, stderr) = ended(arguments, full.into());
        assert_eq!(found, Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.contains("error: cannot write to standard output"), "{arguments:?}: {stderr}");
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(ended(&["crds"], writer.into()), (Some(0), String::new()));
}

#[test]
fn every_command_that_reads_a_folder_says_that_its_kustomization_is_not_applied() {
    let folder = TempDir::new().unwrap();
    let example = fs::read_to_string(tools::root().join("examples/single-node/service.yaml")).unwrap();
    fs::write(folder.path().join("service.yaml"), example.replace("replicas: 1", "replica: 1")).unwrap();
    fs::write(folder.path().join("kustomization.yaml"), "resources: [service.yaml]\n").unwrap();
    let path = folder.path().display().to_string();
    let note = format!(
        "{path}/kustomization.yaml: note: this kustomization is not applied: the files beside it are read as they are\n  hint: pass \
         the objects that it makes, as in `kubectl kustomize {path} | longboat validate -`\n"
    );
    for command in ["validate", "render", "explain", "up"] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_longboat"));
        let ended = run(program.args([command, &path]).env_remove("RUST_LOG"));
        assert!(ended.stderr.contains(&note), "{ended:#?}");
    }
}

#[test]
fn mistakes_have_file_line_column_and_advice() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("service.yaml");
    let text = fs::read_to_string(tools::root().join("examples/single-node/service.yaml")).unwrap();
    fs::write(&file, text.replace("replicas: 1", "replica: 1")).unwrap();
    let ended = validate(&[file.to_str().unwrap()]);
    assert_eq!(ended.status.code(), Some(1), "{ended:#?}");
    let line = format!("{}:11:3: error: spec.replica: unknown field", file.display());
    assert!(ended.stdout.contains(&line), "{ended:#?}");
    assert!(ended.stdout.contains("hint: did you mean `replicas`?"), "{ended:#?}");
    let ended = validate(&["-f", file.to_str().unwrap(), "-o", "json"]);
    assert_eq!(ended.status.code(), Some(1), "{ended:#?}");
    let found = &findings(&ended)[0];
    assert_eq!(found["line"], 11);
    assert_eq!(found["column"], 3);
    assert_eq!(found["path"], "spec.replica");
    assert_eq!(found["source"], "schema");
    assert_eq!(found["object"]["kind"], "LLMInferenceService");
}

#[test]
fn standard_input_is_read_and_broken_text_is_pointed_at() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longboat"));
    command.args(["validate", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"kind: X\n  bad: [\n").unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let stdout = String::from_utf8(ended.stdout).unwrap();
    assert!(stdout.starts_with("-:2:"), "{stdout}");
}

#[test]
fn no_argument_is_a_usage_error() {
    assert_eq!(validate(&[]).status.code(), Some(2));
}

/// Runs the shared validation cases in one run of the program. Leaves out updates and deletions, which need a server.
#[test]
fn the_validation_cases_are_judged_as_everywhere() {
    let mut folders: Vec<PathBuf> = fs::read_dir(tools::root().join("tests/cases/validation"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("expect.yaml").is_file())
        .collect();
    folders.sort();
    let written = TempDir::new().unwrap();
    let mut cases = Vec::new();
    for folder in &folders {
        let expect: Value = read_yaml(&folder.join("expect.yaml"));
        let versions = match expect["versions"].as_array() {
            Some(versions) => versions.iter().map(|version| version.as_str().unwrap().to_owned()).collect(),
            None => vec!["v1alpha1".to_owned(), "v1alpha2".to_owned()],
        };
        for (case, expected) in expect["cases"].as_object().unwrap() {
            if expected.get("old").is_some() || expected["operation"].as_str().is_some_and(|o| o != "CREATE")
            {
                continue;
            }
            for version in &versions {
                let rule = folder.file_name().unwrap().to_str().unwrap();
                let name = format!("{rule}.{case}.{version}.yaml");
                write_case(&folder.join(format!("{case}.yaml")), version, &written.path().join(&name));
                cases.push((name, expected.clone()));
            }
        }
    }
    assert!(!cases.is_empty(), "no case was found");
    let mut found = HashMap::<String, Vec<Value>>::new();
    for finding in findings(&validate(&["-o", "json", written.path().to_str().unwrap()])) {
        let file = Path::new(finding["file"].as_str().unwrap()).file_name().unwrap().to_str().unwrap();
        found.entry(file.to_owned()).or_default().push(finding);
    }
    let differences = cases.iter().filter_map(|(name, expected)| {
        let found = found.remove(name).unwrap_or_default();
        judge(&found, expected).map(|difference| format!("{name}: {difference}"))
    });
    let differences: Vec<String> = differences.collect();
    let (wrong, all) = (differences.len(), cases.len());
    assert!(differences.is_empty(), "{wrong} of {all} cases differ:\n{}", differences.join("\n"));
    assert!(found.is_empty(), "findings for no case: {found:#?}");
}

/// Writes the objects of a case in the API version `version`.
fn write_case(case: &Path, version: &str, to: &Path) {
    let text = fs::read_to_string(case).unwrap();
    let lines = text.lines().map(|line| match line.strip_prefix("apiVersion: serving.kserve.io/") {
        Some(_) => format!("apiVersion: serving.kserve.io/{version}\n"),
        None => format!("{line}\n"),
    });
    fs::write(to, lines.collect::<String>()).unwrap();
}

fn read_yaml(path: &Path) -> Value {
    // The manifest parser accepts only Kubernetes objects, so the expectations are wrapped in one.
    let text = fs::read_to_string(path).unwrap();
    let wrapped = format!(
        "apiVersion: v1\nkind: X\nmetadata: {{name: x}}\nexpect:\n{}",
        text.lines().flat_map(|line| ["  ", line, "\n"]).collect::<String>()
    );
    longboat_manifest::parse("expect.yaml", &wrapped).unwrap().remove(0).object["expect"].take()
}

/// Returns how the findings differ from the expectation, or `None`.
fn judge(found: &[Value], expected: &Value) -> Option<String> {
    // Leaves out two kinds of findings: composition errors, which a server finds only after its response, and duplicate names,
    // because all cases are in one run.
    let of_a_server = |finding: &&Value| finding["source"] != "compose" && finding["reason"] != "Duplicate";
    let is_error = |finding: &&Value| finding["severity"] == "error";
    let errors: Vec<&Value> = found.iter().filter(of_a_server).filter(is_error).collect();
    let Some(code) = expected.get("code") else {
        return (!errors.is_empty()).then(|| format!("expected to be accepted: {errors:#?}"));
    };
    if errors.is_empty() {
        return Some("expected to be refused".to_owned());
    }
    if !errors.iter().any(|error| error["code"] == *code) {
        return Some(format!("no error has code {code}: {errors:#?}"));
    }
    let keyword = expected["keyword"].as_str().unwrap_or_default();
    // A server's message starts with the path. Here, the path is a separate field.
    let message = |error: &Value| {
        let text = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
        format!("{}: {}", text("path"), text("message"))
    };
    if !errors.iter().any(|error| message(error).contains(keyword)) {
        return Some(format!("no message has {keyword:?}: {errors:#?}"));
    }
    let causes = expected["causes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let missing = causes.iter().find(|cause| {
        !errors.iter().any(|error| error["reason"] == cause["reason"] && error["path"] == cause["field"])
    });
    missing.map(|cause| format!("no error for {cause}: {}", json!(errors)))
}
