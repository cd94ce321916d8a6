//! Reading a recorded case: what goes in, what the reference made of it, stage by stage.

use std::{
    cell::OnceCell,
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    rc::Rc,
};

use serde_json::Value;

/// One recorded case.
pub(super) struct Case {
    pub(super) name: String,
    pub(super) server: Option<String>,
    pub(super) variant: Option<String>,
    pub(super) inputs: Vec<Value>,
    pub(super) has_default_account: bool,
    pub(super) stages: Vec<Stage>,
}

/// What is done, and what is then there.
pub(super) struct Stage {
    pub(super) name: String,
    pub(super) action: String,
    pub(super) inputs: Vec<Value>,
    pub(super) denied: bool,
    /// By file name, the whole of it: unchanged files are filled in from the stage before.
    pub(super) children: BTreeMap<String, Rc<Recorded>>,
    pub(super) statuses: BTreeMap<String, Value>,
    pub(super) certificates: Value,
}

/// A recorded child, read when it is looked at: most cases are beyond planning.
pub(super) struct Recorded {
    path: PathBuf,
    value: OnceCell<Value>,
}

impl Recorded {
    pub(super) fn get(&self) -> &Value {
        self.value.get_or_init(|| documents(&self.path).remove(0))
    }
}

/// The folder of recordings, if it is there.
pub(super) fn golden() -> Option<PathBuf> {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/golden");
    let folder = std::env::var_os("LONGBOAT_GOLDEN").map_or(default, PathBuf::from);
    folder.is_dir().then_some(folder)
}

/// The documents of a YAML file.
pub(super) fn documents(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    text.split("\n---\n").filter(|text| !text.trim().is_empty()).map(|text| yaml(text, path)).collect()
}

fn yaml(text: &str, path: &Path) -> Value {
    // Times and addresses that differ from run to run were replaced by words in angle brackets.
    let text = text.replace("<time>", "2026-11-20T00:00:00Z");
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

fn inputs(folder: &Path) -> Vec<Value> {
    let yaml =
        files(&folder.join("input")).into_iter().filter(|path| path.extension().is_some_and(|e| e == "yaml"));
    yaml.flat_map(|path| documents(&path)).collect()
}

// === impl Case ===

impl Case {
    pub(super) fn read(folder: &Path) -> Self {
        let about = fs::read_to_string(folder.join("about.txt")).unwrap_or_default();
        let after = |prefix: &str| {
            about.lines().find_map(|line| line.strip_prefix(prefix)).map(|text| text.trim().to_owned())
        };
        let mut stages = vec![Stage::read(&folder.join("expected"), None)];
        let mut later: Vec<(u32, PathBuf)> = files(folder)
            .into_iter()
            .filter_map(|path| {
                let number = file_name(&path).strip_prefix("expected-")?.split('-').next()?.parse().ok()?;
                Some((number, path))
            })
            .collect();
        later.sort();
        for (_, path) in later {
            let stage = Stage::read(&path, stages.last());
            stages.push(stage);
        }
        Self {
            name: file_name(folder),
            server: after("server:"),
            variant: after("variant of the global ConfigMap:"),
            inputs: inputs(folder),
            has_default_account: !folder.join("input/NO-DEFAULT-SERVICEACCOUNT.txt").exists()
                && !folder.join("NO-DEFAULT-SERVICEACCOUNT.txt").exists(),
            stages,
        }
    }
}

// === impl Stage ===

impl Stage {
    fn read(folder: &Path, before: Option<&Self>) -> Self {
        let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        let mut children = before.map(|stage| stage.children.clone()).unwrap_or_default();
        for path in files(&folder.join("children")) {
            children.insert(file_name(&path), Rc::new(Recorded { path, value: OnceCell::new() }));
        }
        for line in read(&folder.join("changes.txt")).lines() {
            if let Some(name) = line.strip_prefix("deleted: children/") {
                children.remove(name);
            }
        }
        let mut statuses = before.map(|stage| stage.statuses.clone()).unwrap_or_default();
        let mut certificates = before.map(|stage| stage.certificates.clone()).unwrap_or_default();
        let mut denied = false;
        for path in files(folder) {
            let name = file_name(&path);
            if let Some(rest) = name.strip_prefix("status").and_then(|rest| rest.strip_suffix(".yaml")) {
                let value = documents(&path).pop().unwrap_or_default();
                statuses.insert(rest.trim_start_matches('-').to_owned(), value);
            } else if name == "certificates.yaml" {
                certificates = documents(&path).remove(0);
            }
            denied |= name.starts_with("denied");
        }
        Self {
            name: file_name(folder),
            action: read(&folder.join("stage.txt")).trim().to_owned(),
            inputs: inputs(folder),
            denied,
            children,
            statuses,
            certificates,
        }
    }
}
