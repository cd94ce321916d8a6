//! The cases of `tests/cases/compose`: the result for a service, for each preset and topology. And the manifests of the documents that
//! define the API (`tests/cases/seeds`), unchanged.
//!
//! `LONGBOAT_REGENERATE=1 cargo test -p longboat-offline --test cases` writes the expected results again. Review the
//! difference before you commit it.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use longboat_api::names::preset::RETIRED;
use longboat_key::Namespace;
use longboat_offline::{
    Settings, explain,
    render::{self, Note},
    scene::Scene,
    validate::{Finding, validate},
};
use serde::Deserialize;

/// The results of a case, by file.
type Outcome = Vec<(&'static str, String)>;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/compose")
}

fn outcome(case: &Path) -> Outcome {
    let text = fs::read_to_string(case.join("input.yaml")).unwrap();
    let documents = longboat_manifest::parse("input.yaml", &text).unwrap();
    let scene =
        Scene::new(&documents, &Settings::default()).unwrap_or_else(|e| panic!("{}: {e}", case.display()));
    let [subject] = scene.subjects.as_slice() else { panic!("{}: one service", case.display()) };
    let service = &subject.service;
    let (effective, children) = match (render::effective(&scene, service), render::children(&scene, service))
    {
        (Ok((effective, _)), Ok(children)) => (effective, children),
        (Err(error), _) | (_, Err(error)) => return vec![("error.txt", format!("{error}\n"))],
    };
    let mut outcome = vec![
        ("effective.yaml", render::to_yaml([&effective])),
        ("children.yaml", render::to_yaml(children.objects.iter().map(|object| &object.value))),
        ("notes.txt", notes(&children.notes)),
    ];
    if let Ok(paths) = fs::read_to_string(case.join("explain.paths")) {
        let mut text = String::new();
        for path in paths.lines() {
            let _ = writeln!(text, "$ explain {path}");
            match explain::explain(&scene, service, Some(path)) {
                Ok(found) => text.push_str(&found.to_text()),
                Err(error) => {
                    let _ = writeln!(text, "{error}");
                }
            }
            text.push('\n');
        }
        outcome.push(("explain.txt", plain(&text)));
    }
    outcome
}

fn notes(notes: &[Note]) -> String {
    notes.iter().fold(String::new(), |mut text, note| {
        let _ = writeln!(text, "{:?}: {}", note.severity, note.message);
        text
    })
}

/// Removes colours.
fn plain(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or(part, |(_, rest)| rest))
}

/// The first line that differs.
fn difference(file: &Path, expected: &str, found: &str) -> Option<String> {
    if expected == found {
        return None;
    }
    let same = expected.lines().zip(found.lines()).take_while(|(a, b)| a == b).count();
    let line = |text: &str| text.lines().nth(same).unwrap_or("the end").to_owned();
    let place = file.strip_prefix(folder()).unwrap_or(file).display();
    Some(format!("{place}:{}:\n  expected {}\n  found    {}", same + 1, line(expected), line(found)))
}

#[test]
fn every_preset_and_topology_becomes_what_its_case_says() {
    let regenerate = std::env::var_os("LONGBOAT_REGENERATE").is_some();
    let mut cases: Vec<PathBuf> =
        fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.retain(|path| path.is_dir());
    cases.sort();
    let mut different = Vec::new();
    let mut presets = std::collections::BTreeSet::new();
    for case in &cases {
        let outcome = outcome(case);
        for entry in fs::read_dir(case).unwrap() {
            let file = entry.unwrap().path();
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            let known = ["input.yaml", "explain.paths"].contains(&name.as_str());
            if known || outcome.iter().any(|(expected, _)| *expected == name) {
                continue;
            }
            if regenerate {
                fs::remove_file(&file).unwrap();
            } else {
                different.push(format!("{}: nothing leads to it", file.display()));
            }
        }
        for (name, found) in &outcome {
            let file = case.join(name);
            if regenerate {
                fs::write(&file, found).unwrap();
            }
            different.extend(difference(&file, &fs::read_to_string(&file).unwrap_or_default(), found));
        }
        presets.extend(applied(case));
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    let all: std::collections::BTreeSet<String> =
        longboat_compose::presets::builtin(&longboat_compose::PresetNames::default(), Namespace("kserve"))
            .unwrap()
            .into_iter()
            .filter_map(|preset| preset.metadata.name)
            // A manifest has no pins, and without a pin no service uses these.
            .filter(|name| !RETIRED.iter().any(|retired| name.ends_with(retired)))
            .collect();
    assert_eq!(presets, all, "every preset of new services is part of a case");
}

/// The presets that a case uses.
fn applied(case: &Path) -> Vec<String> {
    let text = fs::read_to_string(case.join("input.yaml")).unwrap();
    let documents = longboat_manifest::parse("input.yaml", &text).unwrap();
    let scene = Scene::new(&documents, &Settings::default()).unwrap();
    let composed = scene.compose(&scene.subjects[0].service);
    let names = composed.into_iter().flat_map(|effective| effective.applied).map(|config| config.name);
    names.filter(|name| name.starts_with("kserve-config-")).collect()
}

/// What becomes of a manifest, as far as these tests read it.
#[derive(Deserialize)]
struct Expected {
    /// Parts of the message with which `validate` refuses the manifest.
    #[serde(default)]
    refused: Vec<String>,
}

#[test]
fn every_manifest_of_the_documents_is_valid_and_rendered_as_it_is_written() {
    let folder = folder().join("../seeds");
    let expected = fs::read_to_string(folder.join("expect.yaml")).unwrap();
    let expected: BTreeMap<String, Expected> = serde_saphyr::from_str(&expected).unwrap();
    assert!(!expected.is_empty());
    for (name, Expected { refused }) in expected {
        let reading = longboat_manifest::read_all(&[folder.join(format!("{name}.yaml"))]);
        let documents = reading.documents.clone();
        let report = validate(reading, &Settings::default());
        assert_eq!(report.is_clean(), refused.is_empty(), "{name}: {:#?}", report.findings);
        let said = report.findings.iter().map(|Finding { path, message, hint, .. }| {
            format!("{path}: {message} ({})", hint.as_deref().unwrap_or_default())
        });
        let said = said.collect::<Vec<_>>().join("\n");
        for text in &refused {
            assert!(said.contains(text), "{name}: {said}");
        }
        if !refused.is_empty() {
            continue;
        }
        let scene = Scene::new(&documents, &Settings::default()).unwrap();
        assert!(!scene.subjects.is_empty(), "{name}");
        for subject in &scene.subjects {
            let children = render::children(&scene, &subject.service).unwrap();
            let mut kinds = children.objects.iter().map(|object| &object.value["kind"]);
            assert!(kinds.any(|kind| kind == "Deployment" || kind == "LeaderWorkerSet"), "{name}");
        }
    }
}
