//! Compares what the reference refused, warned about and stored, case by case.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    path::Path,
};

use longboat_admission::{Facts, Subject};
use longboat_compose::{Platform, go, platform::PlatformError};
use longboat_golden::{Entry, compatibility, golden};
use longboat_key::Namespace;
use serde_json::{Value, json};

use crate::{
    folder::say,
    refusal::{Refusal, recorded},
    server::{Reply, Server},
};

/// A difference between a case and its recording.
struct Difference {
    /// `CASE/STAGE/FILE`.
    place: String,
    what: String,
}

/// The known differences by place, each with an id of `compatibility.yaml`.
fn reasons() -> BTreeMap<String, String> {
    let text =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/differences.txt"))
            .unwrap();
    let mut reasons = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (place, id) = line.split_once(": ").unwrap_or_else(|| panic!("no id in {line:?}"));
        compatibility::deviation(id);
        reasons.insert(place.to_owned(), id.to_owned());
    }
    reasons
}

/// The facts for admission in a case. The `about.txt` of the case may name another ConfigMap.
fn facts(golden: &Entry, about: &str) -> Facts {
    let variant = about.lines().find_map(|line| line.strip_prefix("variant of the global ConfigMap: "));
    let file = match variant {
        None => golden.join("base/configmap.yaml"),
        Some(variant) => golden.join(&format!("base/variants/{}.yaml", variant.trim())),
    };
    let platform = if file.exists() {
        let data: BTreeMap<String, String> = serde_json::from_value(file.yaml()["data"].clone()).unwrap();
        Platform::parse(&data, Namespace("kserve"))
    } else {
        Err(PlatformError::Missing { name: "inferenceservice-config" })
    };
    Facts { platform, ..Facts::default() }
}

/// Objects of our kinds in a folder of inputs.
fn inputs(folder: &Entry) -> Vec<Value> {
    let ours = |object: &Value| Subject::of_kind(object["kind"].as_str().unwrap_or_default()).is_some();
    folder.entries().iter().map(Entry::yaml).filter(ours).collect()
}

struct Run<'a> {
    server: &'a Server,
    namespace: String,
    differences: Vec<Difference>,
    compared: usize,
    /// The object with a name that the server generated.
    generated: Option<Value>,
}

impl Run<'_> {
    async fn case(&mut self, case: &Entry) {
        let stages = case.folders().into_iter().filter(|stage| stage.name().starts_with("expected"));
        for stage in stages {
            let place = format!("{}/{}", case.name(), stage.name());
            let replies = if stage.name() == "expected" {
                let mut replies = Vec::new();
                for object in inputs(&case.join("input")) {
                    self.server.namespace(self.of(&object)).await;
                    let reply = self.server.create(self.of(&object), &object).await;
                    if object["metadata"]["name"].is_null() {
                        // The finalizer of the controller is the first change that contains the generated name.
                        let patch =
                            json!({"metadata": {"finalizers": ["serving.kserve.io/llmisvc-finalizer"]}});
                        self.server.patch(self.of(&reply.body), &reply.body, &patch).await;
                        self.generated = Some(reply.body.clone());
                    }
                    replies.push((object, reply));
                }
                replies
            } else {
                self.stage(&stage).await
            };
            self.compare_refusals(&place, &stage, &replies);
            self.compare_warnings(&place, &stage, &replies);
            self.compare_stored(&place, &stage).await;
        }
    }

    fn of<'o>(&'o self, object: &'o Value) -> &'o str {
        object["metadata"]["namespace"].as_str().unwrap_or(&self.namespace)
    }

    /// Executes a later stage, as far as it concerns our kinds.
    async fn stage(&self, stage: &Entry) -> Vec<(Value, Reply)> {
        let mut replies = Vec::new();
        for object in inputs(&stage.join("input")) {
            let exists = self.server.get(self.of(&object), &object).await.code == 200;
            let reply = if exists {
                self.server.replace(self.of(&object), &object).await
            } else {
                self.server.create(self.of(&object), &object).await
            };
            replies.push((object, reply));
        }
        let text = stage.join("stage.txt").text().unwrap_or_default();
        let (request, patch) = text.trim().split_once(" : ").unwrap_or((text.trim(), ""));
        let words: Vec<_> = request.split(' ').collect();
        match words[..] {
            ["PATCH", kind, name] if Subject::of_kind(kind).is_some() => {
                let object = reference(kind, name);
                let patch: Value = serde_json::from_str(patch).unwrap();
                replies.push((object.clone(), self.server.patch(&self.namespace, &object, &patch).await));
            }
            ["DELETE", kind, name] if Subject::of_kind(kind).is_some() => {
                let object = reference(kind, name);
                replies.push((object.clone(), self.server.delete(&self.namespace, &object).await));
            }
            ["GET", "through", "v1alpha1", ..] => {
                let mut object = reference("LLMInferenceService", "llm");
                object["apiVersion"] = json!("serving.kserve.io/v1alpha1");
                let mut reply = self.server.get(&self.namespace, &object).await;
                if reply.code == 200 {
                    object = reply.body;
                    reply = self.server.replace(&self.namespace, &object).await;
                }
                replies.push((object, reply));
            }
            _ => {}
        }
        replies
    }

    fn compare_refusals(&mut self, place: &str, stage: &Entry, replies: &[(Value, Reply)]) {
        let mut recorded = recorded(stage);
        for (object, reply) in replies {
            let (kind, name) = (&object["kind"], object["metadata"]["name"].as_str().unwrap_or_default());
            let of_this = recorded.iter().position(|r| *kind == r.kind.as_str() && name == r.name);
            let wanted = of_this.map(|i| recorded.remove(i));
            let refused = reply.code >= 300;
            if !refused && wanted.is_none() {
                continue;
            }
            self.compared += 1;
            let (file, what) = match wanted {
                None => ("accepted".to_owned(), Some(format!("refused: {}", reply.body["message"]))),
                Some(wanted) if !refused => (wanted.file, Some("accepted".to_owned())),
                Some(wanted) => (wanted.file, Refusal::of(&reply.body).difference(&wanted.refusal)),
            };
            self.differ(format!("{place}/{file}"), what);
        }
        for missing in recorded {
            self.differ(format!("{place}/{}", missing.file), Some("was not asked".to_owned()));
        }
    }

    /// Compares warnings: every warning of the reference must be given. There may be more, because no field is ignored
    /// silently.
    fn compare_warnings(&mut self, place: &str, stage: &Entry, replies: &[(Value, Reply)]) {
        let Some(text) = stage.join("warnings.txt").text() else { return };
        self.compared += 1;
        let given: BTreeSet<_> = replies.iter().flat_map(|(_, reply)| &reply.warnings).collect();
        let missing: Vec<_> = text.lines().filter(|line| !given.contains(&(*line).to_owned())).collect();
        let what = (!missing.is_empty()).then(|| format!("{missing:?} is missing among {given:?}"));
        self.differ(format!("{place}/warnings.txt"), what);
    }

    /// Compares the stored objects: labels, annotations and spec, after the round trip through the reference's types that its
    /// controller makes with every object.
    async fn compare_stored(&mut self, place: &str, stage: &Entry) {
        for file in stage.entries() {
            let named = file.name();
            if !file.has_extension("yaml") || !(named.starts_with("service") || named.starts_with("config-"))
            {
                continue;
            }
            let wanted = file.yaml();
            if Subject::of_kind(wanted["kind"].as_str().unwrap_or_default()).is_none() {
                continue;
            }
            if !wanted["metadata"]["deletionTimestamp"].is_null() || deletes(stage, &wanted) {
                // The object is held by a finalizer of the controller, and there is no controller here.
                continue;
            }
            self.compared += 1;
            let asked = self.generated.as_ref().unwrap_or(&wanted);
            let mut reply = self.server.get(self.of(asked), asked).await;
            if let Some(generated) = &self.generated {
                let text =
                    |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                let body = reply.body.to_string().replace(&text(generated), &text(&wanted));
                reply.body = serde_json::from_str(&body).unwrap();
            }
            let what = if reply.code == 200 {
                stored_difference(&reply.body, &wanted)
            } else {
                Some(format!("is not there: {}", reply.body["message"]))
            };
            self.differ(format!("{place}/{named}"), what);
        }
    }

    fn differ(&mut self, place: String, what: Option<String>) {
        self.differences.extend(what.map(|what| Difference { place, what }));
    }
}

/// Whether a stage deletes an object.
fn deletes(stage: &Entry, object: &Value) -> bool {
    let text = stage.join("stage.txt").text().unwrap_or_default();
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    text.trim() == format!("DELETE {} {name}", object["kind"].as_str().unwrap_or_default())
}

fn reference(kind: &str, name: &str) -> Value {
    json!({"apiVersion": "serving.kserve.io/v1alpha2", "kind": kind, "metadata": {"name": name}})
}

/// Returns the paths at which two stored objects differ, with both values.
fn stored_difference(ours: &Value, theirs: &Value) -> Option<String> {
    let reduced = |object: &Value| {
        let mut object = if object["apiVersion"] == "serving.kserve.io/v1alpha2" {
            go::round_trip(object).unwrap_or_else(|error| panic!("{error}: {object}"))
        } else {
            object.clone()
        };
        let part = |key: &str| object["metadata"].get(key).cloned().filter(|map| *map != json!({}));
        let metadata = json!({"labels": part("labels"), "annotations": part("annotations")});
        json!({"metadata": metadata, "spec": object["spec"].take()})
    };
    let mut found = String::new();
    walk("", &reduced(ours), &reduced(theirs), &mut found);
    (!found.is_empty()).then_some(found)
}

fn walk(path: &str, ours: &Value, theirs: &Value, out: &mut String) {
    match (ours, theirs) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                let side =
                    |map: &serde_json::Map<String, Value>| map.get(key).cloned().unwrap_or(Value::Null);
                walk(&format!("{path}.{key}"), &side(a), &side(b), out);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().for_each(|(i, (a, b))| walk(&format!("{path}[{i}]"), a, b, out));
        }
        _ if ours != theirs => {
            let _ = write!(out, "\n    {path}: {ours} instead of {theirs}");
        }
        _ => {}
    }
}

fn cases(golden: &Entry) -> Vec<Entry> {
    let cases = golden.join("cases").folders().into_iter();
    cases.filter(|case| !inputs(&case.join("input")).is_empty() && case.join("expected").is_dir()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_recorded_case_is_admitted_defaulted_and_refused_as_the_reference_does() {
    let golden = golden();
    let reasons = reasons();
    let server = Server::start(Facts::default()).await;
    let mut used = BTreeSet::new();
    let (mut equal, mut explained, mut different, mut compared) = (0, 0, Vec::new(), 0);
    for case in cases(&golden) {
        let about = case.join("about.txt").text().unwrap_or_default();
        server.know(facts(&golden, &about));
        server.namespace(case.name()).await;
        let mut run = Run {
            server: &server,
            namespace: case.name().to_owned(),
            differences: Vec::new(),
            compared: 0,
            generated: None,
        };
        run.case(&case).await;
        compared += run.compared;
        let unexplained: Vec<_> =
            run.differences.iter().filter(|d| !reasons.contains_key(&d.place)).collect();
        used.extend(run.differences.iter().map(|d| d.place.clone()));
        let verdict = if run.differences.is_empty() {
            equal += 1;
            "equal"
        } else if unexplained.is_empty() {
            explained += 1;
            "different with a reason"
        } else {
            "different"
        };
        say(&format!("{:60} {verdict}", case.name()));
        different.extend(unexplained.into_iter().map(|d| format!("{}: {}", d.place, d.what)));
    }
    say(&format!("{equal} equal, {explained} different with a reason, {compared} comparisons"));
    assert!(different.is_empty(), "{} different:\n{}", different.len(), different.join("\n"));
    let stale: Vec<_> = reasons.keys().filter(|place| !used.contains(*place)).collect();
    assert!(stale.is_empty(), "differences.txt lists what does not differ: {stale:?}");
    assert!(compared > 300, "only {compared} comparisons");
}
