//! Reads a recorded case: the inputs, and the result of KServe's controller, stage by stage.

use std::{cell::OnceCell, collections::BTreeMap, rc::Rc};

use serde_json::Value;

use crate::Entry;

/// One recorded case.
#[derive(Debug)]
pub struct Case {
    /// The name of the case's folder, and the namespace in which it was recorded.
    pub name: String,
    /// A server that lacks some APIs, if the case needs one.
    pub server: Option<String>,
    /// A variant of the global ConfigMap, if the case needs one.
    pub variant: Option<String>,
    /// The objects that were created first, in this order.
    pub inputs: Vec<Value>,
    /// Whether the namespace had the service account `default`.
    pub has_default_account: bool,
    /// The stages, starting with the first settled state.
    pub stages: Vec<Stage>,
}

/// An action, and the state after it.
#[derive(Debug)]
pub struct Stage {
    /// The name of the stage's folder.
    pub name: String,
    /// The action in the words of the recorder.
    pub action: String,
    /// The objects that were created or replaced.
    pub inputs: Vec<Value>,
    /// Whether a request was refused.
    pub denied: bool,
    /// All children by file name. Unchanged files come from the previous stage.
    pub children: BTreeMap<String, Rc<RecordedChild>>,
    /// The statuses by the name of the service. The only service of a case has an empty name.
    pub statuses: BTreeMap<String, Value>,
    /// Facts about the certificate in each secret.
    pub certificates: Value,
    /// The events during this stage, one per line: `TYPE REASON count=N KIND/NAME [COMPONENT] MESSAGE`.
    pub events: Vec<String>,
}

/// A recorded child, which is parsed on demand.
#[derive(Debug)]
pub struct RecordedChild {
    file: Entry,
    value: OnceCell<Value>,
}

impl RecordedChild {
    /// The object.
    pub fn get(&self) -> &Value {
        self.value.get_or_init(|| documents(&self.file).remove(0))
    }
}

/// Returns the folders of all cases.
pub fn folders(golden: &Entry) -> Vec<Entry> {
    golden.join("cases").folders()
}

/// Returns the documents of a YAML file. Inserts a time wherever the recorder has removed one.
pub fn documents(file: &Entry) -> Vec<Value> {
    let text = file.read().replace("<time>", "2026-11-20T00:00:00Z");
    let texts = text.split("\n---\n").filter(|text| !text.trim().is_empty());
    texts.map(|text| serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{file}: {error}"))).collect()
}

/// Returns the service whose status is in a file. The only service of a case has an empty name.
fn service_of(file: &str) -> Option<&str> {
    Some(file.strip_prefix("status")?.strip_suffix(".yaml")?.trim_start_matches('-'))
}

/// Splits events, whose messages may have several lines.
fn events(text: &str) -> Vec<String> {
    let mut events: Vec<String> = Vec::new();
    for line in text.lines() {
        match events.last_mut() {
            Some(last) if !line.starts_with("Normal ") && !line.starts_with("Warning ") => {
                last.push('\n');
                last.push_str(line);
            }
            _ => events.push(line.to_owned()),
        }
    }
    events
}

fn inputs(folder: &Entry) -> Vec<Value> {
    let files = folder.join("input").entries().into_iter();
    files.filter(|file| file.has_extension("yaml")).flat_map(|file| documents(&file)).collect()
}

// === impl Case ===

impl Case {
    /// Reads a case.
    pub fn read(folder: &Entry) -> Self {
        let about = folder.join("about.txt").text().unwrap_or_default();
        let after = |prefix: &str| {
            about.lines().find_map(|line| line.strip_prefix(prefix)).map(|text| text.trim().to_owned())
        };
        let mut stages = vec![Stage::read(&folder.join("expected"), None)];
        let mut later: Vec<(u32, Entry)> = folder
            .folders()
            .into_iter()
            .filter_map(|stage| {
                let number = stage.name().strip_prefix("expected-")?.split('-').next()?.parse().ok()?;
                Some((number, stage))
            })
            .collect();
        later.sort();
        for (_, folder) in later {
            let stage = Stage::read(&folder, stages.last());
            stages.push(stage);
        }
        Self {
            name: folder.name().to_owned(),
            server: after("server:"),
            variant: after("variant of the global ConfigMap:"),
            inputs: inputs(folder),
            has_default_account: !folder.join("input/NO-DEFAULT-SERVICEACCOUNT.txt").exists()
                && !folder.join("NO-DEFAULT-SERVICEACCOUNT.txt").exists(),
            stages,
        }
    }

    /// Returns why a case needs an API server in addition to planning, based on its inputs and its recorded states. Returns
    /// `None` if planning suffices.
    pub fn needs_a_server(&self) -> Option<String> {
        needs(self)
    }
}

fn needs(case: &Case) -> Option<String> {
    if case
        .variant
        .as_deref()
        .is_some_and(|variant| ["bad-ingress", "missing", "no-storage"].contains(&variant))
    {
        return Some("settings that cannot be read".into());
    }
    for action in case.stages.iter().map(|stage| stage.action.as_str()) {
        if ["DELETE LLMInferenceService ", "PATCH LLMInferenceService ", "GET "]
            .iter()
            .any(|start| action.starts_with(start))
        {
            return Some(format!(
                "an action of the API server: {}",
                action.split(' ').next().unwrap_or_default()
            ));
        }
    }
    let inputs = || case.inputs.iter().chain(case.stages.iter().flat_map(|stage| &stage.inputs));
    if inputs().any(|input| input["metadata"]["generateName"].is_string()) {
        return Some("a name that the API server generates".into());
    }
    if inputs().any(|input| input["apiVersion"] == "serving.kserve.io/v1alpha1") {
        return Some("conversion of v1alpha1".into());
    }
    if case.stages.iter().any(|stage| stage.denied) {
        return Some("an input that admission refuses".into());
    }
    if case.stages.iter().all(|stage| stage.statuses.is_empty()) {
        return Some("no service was stored".into());
    }
    for stage in &case.stages {
        let conditions =
            stage.statuses.values().flat_map(|status| status["conditions"].as_array().into_iter().flatten());
        let invalid = conditions.into_iter().any(|condition| {
            let message = condition["message"].as_str().unwrap_or_default();
            message.contains("is invalid: ") && !message.contains("field is immutable")
        });
        if invalid {
            return Some("the API server's validation of a child".into());
        }
    }
    None
}

// === impl Stage ===

impl Stage {
    fn read(folder: &Entry, before: Option<&Self>) -> Self {
        let read = |file: &str| folder.join(file).text().unwrap_or_default();
        let mut children = before.map(|stage| stage.children.clone()).unwrap_or_default();
        let mut statuses = before.map(|stage| stage.statuses.clone()).unwrap_or_default();
        for file in folder.join("children").entries() {
            children.insert(file.name().to_owned(), Rc::new(RecordedChild { file, value: OnceCell::new() }));
        }
        for line in read("changes.txt").lines() {
            if let Some(name) = line.strip_prefix("deleted: children/") {
                children.remove(name);
            }
            if let Some(name) = line.strip_prefix("deleted: ").and_then(service_of) {
                statuses.remove(name);
            }
        }
        let mut certificates = before.map(|stage| stage.certificates.clone()).unwrap_or_default();
        let mut told = Vec::new();
        let mut denied = false;
        for file in folder.entries() {
            let name = file.name();
            if let Some(service) = service_of(name) {
                let value = documents(&file).pop().unwrap_or_default();
                statuses.insert(service.to_owned(), value);
            } else if name == "certificates.yaml" {
                certificates = documents(&file).remove(0);
            } else if name == "events.txt" {
                told = events(&file.read());
            }
            denied |= name.starts_with("denied");
        }
        Self {
            name: folder.name().to_owned(),
            action: read("stage.txt").trim().to_owned(),
            inputs: inputs(folder),
            denied,
            children,
            statuses,
            certificates,
            events: told,
        }
    }
}
