//! `diff`: what applying manifests would change in the composed spec and in each child, and which pods would be replaced.

mod text;

use std::collections::{BTreeMap, BTreeSet};

use longboat_api::v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec};
use longboat_compose::Effective;
use longboat_key::{Key, Name};
use longboat_manifest::parallel;
use longboat_plan::{paths, same_value};
use longboat_types::type_of_object;
use serde::Serialize;
use serde_json::{Value, json};
use thiserror::Error;

pub use text::{objects_to_text, to_text};

use crate::{
    explain::{self, Setter, View},
    objects::{self, Object},
    refusal, render,
    scene::{PlannedService, PlanningError, Scene},
};

/// Fields of an object that do not describe its desired state.
const SERVERS: [&str; 8] = [
    "status",
    "metadata.resourceVersion",
    "metadata.uid",
    "metadata.generation",
    "metadata.creationTimestamp",
    "metadata.managedFields",
    "metadata.selfLink",
    "metadata.finalizers",
];

/// The changes of one service.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// `namespace/name`.
    pub service: String,
    /// Whether there was no such service before.
    #[serde(skip)]
    pub is_new: bool,
    /// Changes of the composed spec.
    pub effective: Vec<FieldChange>,
    /// Changes of children.
    pub children: Vec<ChildChange>,
    /// Workloads whose pods would be replaced.
    pub rolls: Vec<Roll>,
    /// Why planning stopped, if it did. What comes after that stays as it is, and is not compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A changed field.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldChange {
    /// Its path.
    pub path: String,
    /// The JSON pointer of the field in its object.
    #[serde(skip)]
    pub(crate) pointer: String,
    /// Its value before; `None` if the field is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// Its value afterwards; `None` if the field is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
    /// The layer that sets it afterwards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_by: Option<Setter>,
}

/// A changed child, or a changed object of a manifest.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildChange {
    /// `Kind/name`. For an object of a manifest `Kind namespace/name`.
    pub object: String,
    /// How the object changes.
    pub action: Action,
    /// The changed fields of an object that is changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldChange>,
}

/// How an object changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// It is created.
    Created,
    /// It is updated.
    Changed,
    /// It is deleted.
    Removed,
}

/// A Deployment or LeaderWorkerSet whose pods are replaced.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Roll {
    /// `Kind/name`.
    pub object: String,
    /// The fields of its pod template that differ.
    pub because: Vec<Cause>,
}

/// Why pods are replaced.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cause {
    /// The field of the workload.
    pub path: String,
    /// The fields of the composed spec from which it is derived.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<String>,
}

// === impl Difference ===

impl Difference {
    /// Whether nothing would change.
    pub fn is_empty(&self) -> bool {
        self.effective.is_empty() && self.children.is_empty()
    }
}

/// A service that cannot be planned, so its difference is unknown.
#[derive(Debug, Error)]
#[error("cannot compute the objects of {service}")]
pub struct PlanFailure {
    /// `namespace/name`.
    pub service: String,
    /// The reason.
    #[source]
    pub source: PlanningError,
}

/// Returns the changes from `before` to `after`, for each service that `after` was given and for each that only `before` was
/// given. Also returns the services for which this is unknown because they cannot be planned. If `live` is set, the children
/// of `before` are those in a cluster, not planned ones. Then other services are compared too, and included if a given config
/// changes their composed spec.
pub fn diff(before: &Scene, after: &Scene, live: bool) -> (Vec<Difference>, Vec<PlanFailure>) {
    let (mut all, mut failed) = (Vec::new(), Vec::new());
    let differences = parallel::map(&after.subjects, |subject| {
        let old = before.subject(&Key::of(&*subject.service)).map(|old| &*old.service);
        one(before, old, after, &subject.service, live)
    });
    for (subject, difference) in after.subjects.iter().zip(differences) {
        match difference {
            Ok(difference) if subject.given || live && !difference.effective.is_empty() => {
                all.push(difference);
            }
            Err(source) if subject.given => failed.push(unplannable(&subject.service, source)),
            _ => {}
        }
    }
    if !live {
        for subject in before.subjects.iter().filter(|subject| subject.given) {
            if after.subject(&Key::of(&*subject.service)).is_none() {
                match gone(before, &subject.service) {
                    Ok(difference) => all.push(difference),
                    Err(source) => failed.push(unplannable(&subject.service, source)),
                }
            }
        }
    }
    (all, failed)
}

/// Returns the change of an object of a manifest, if it changes. Values of Secrets are not shown, as in `kubectl diff`.
pub fn object_change(object: String, before: Option<&Value>, after: Option<&Value>) -> Option<ChildChange> {
    let (action, mut fields) = match (before, after) {
        (Some(before), Some(after)) => (Action::Changed, changes(before, after)),
        (None, Some(_)) => (Action::Created, Vec::new()),
        (_, None) => (Action::Removed, Vec::new()),
    };
    if after.is_some_and(|after| after["kind"] == "Secret") {
        let is_value = |pointer: &str| pointer.starts_with("/data/") || pointer.starts_with("/stringData/");
        for change in fields.iter_mut().filter(|change| is_value(&change.pointer)) {
            change.before = change.before.as_ref().map(|_| json!("*** (before)"));
            change.after = change.after.as_ref().map(|_| json!("*** (after)"));
        }
    }
    (action != Action::Changed || !fields.is_empty()).then_some(ChildChange { object, action, fields })
}

fn unplannable(service: &LLMInferenceService, source: PlanningError) -> PlanFailure {
    PlanFailure { service: explain::full_name(service), source }
}

fn one(
    before: &Scene,
    old: Option<&LLMInferenceService>,
    after: &Scene,
    new: &LLMInferenceService,
    live: bool,
) -> Result<Difference, PlanningError> {
    let planned = after.plan(new)?;
    if let Some(message) = refusal::message(after, new, &planned) {
        return Err(PlanningError::Refused(message));
    }
    // A service that cannot be composed before the change has nothing to compare with.
    let old_planned = old.and_then(|old| before.plan(old).ok());
    let old_spec = old_planned.as_ref().and_then(|planned| planned.effective.as_ref()).map(|old| &*old.spec);
    let effective = effective_changes(after, new, old_spec, planned.effective.as_ref());

    let mut children = Vec::new();
    let mut rolls = Vec::new();
    let mut pairs: Vec<(String, Option<Value>, Option<Value>)> = Vec::new();
    if live {
        // Both follow the table of kinds, so they have the same order.
        let finished = render::finished(&planned.plan);
        for (write, object) in
            objects::writes(&planned.plan.children, &planned.snapshot).into_iter().zip(finished)
        {
            // A certificate that will be issued has no value before.
            let issued = object.value["data"]["tls.crt"] == render::CERTIFICATE_PLACEHOLDER;
            let shown = if issued { object.value } else { write.after };
            pairs.push((name_of(&shown), write.live, Some(shown)));
        }
        for reference in &planned.plan.remove {
            let name = format!("{}/{}", objects::kind_of(reference.kind), reference.key.name);
            pairs.push((name, Some(json!({})), None));
        }
    } else {
        let old = old_planned.as_ref().map(|planned| render::finished(&planned.plan)).unwrap_or_default();
        pairs = paired(old, render::finished(&planned.plan));
    }
    let problem = planned.plan.problem.as_ref().map(render::sentence);
    for (object, before, now) in pairs {
        let change = match (before, now) {
            // Nothing is known of it: it may come after the place where planning stopped.
            (Some(_), None) if !live && problem.is_some() => continue,
            (None, Some(_)) => ChildChange { object, action: Action::Created, fields: Vec::new() },
            (Some(_), None) => ChildChange { object, action: Action::Removed, fields: Vec::new() },
            (Some(before), Some(now)) => {
                let fields = changes(&before, &now);
                if fields.is_empty() {
                    continue;
                }
                ChildChange { object, action: Action::Changed, fields }
            }
            (None, None) => continue,
        };
        rolls.extend(rollout_reasons(after, new, &planned, &change));
        children.push(change);
    }
    // Labels and annotations of a service may have no effect on what it becomes.
    if effective.is_empty()
        && children.is_empty()
        && let Some(old) = old
    {
        let json = |service| serde_json::to_value(service).unwrap_or_default();
        let object = format!("LLMInferenceService/{}", Name::of(&new.metadata));
        children.extend(object_change(object, Some(&json(old)), Some(&json(new))));
    }
    Ok(Difference {
        service: explain::full_name(new),
        is_new: old.is_none(),
        effective,
        children,
        rolls,
        problem,
    })
}

fn gone(before: &Scene, service: &LLMInferenceService) -> Result<Difference, PlanningError> {
    let planned = before.plan(service)?;
    let removed = render::finished(&planned.plan).into_iter().map(|object| ChildChange {
        object: name_of(&object.value),
        action: Action::Removed,
        fields: Vec::new(),
    });
    Ok(Difference {
        service: explain::full_name(service),
        is_new: false,
        effective: Vec::new(),
        children: removed.collect(),
        rolls: Vec::new(),
        problem: None,
    })
}

fn name_of(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let group = text("/apiVersion").split_once('/').map_or("", |(group, _)| group);
    // Pools exist in two API groups.
    let suffix = if group == "inference.networking.x-k8s.io" { ".inference.networking.x-k8s.io" } else { "" };
    format!("{}{suffix}/{}", text("/kind"), text("/metadata/name"))
}

/// Pairs the objects of both sides by name, in the order of the new ones.
fn paired(old: Vec<Object>, new: Vec<Object>) -> Vec<(String, Option<Value>, Option<Value>)> {
    let mut old: BTreeMap<String, Value> =
        old.into_iter().map(|object| (name_of(&object.value), object.value)).collect();
    let mut pairs: Vec<_> = new
        .into_iter()
        .map(|object| {
            let name = name_of(&object.value);
            let before = old.remove(&name);
            (name, before, Some(object.value))
        })
        .collect();
    pairs.extend(old.into_iter().map(|(name, value)| (name, Some(value), None)));
    pairs
}

fn effective_changes(
    after: &Scene,
    service: &LLMInferenceService,
    old: Option<&LLMInferenceServiceSpec>,
    effective: Option<&Effective>,
) -> Vec<FieldChange> {
    let new = effective.map_or(&service.spec, |effective| &*effective.spec);
    let json = |spec: Option<&LLMInferenceServiceSpec>| json!({ "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService", "spec": spec });
    let mut found = changes(&json(old), &json(Some(new)));
    // Most services do not change, and finding the layers of all fields is expensive.
    if let Some(effective) = effective.filter(|_| !found.is_empty()) {
        let setters = explain::setters(View { scene: after, service, effective });
        for change in found.iter_mut().filter(|change| change.after.is_some()) {
            change.set_by = setters.get(&change.pointer).cloned();
        }
    }
    found
}

/// Returns the fields in which two objects differ, by path.
fn changes(before: &Value, after: &Value) -> Vec<FieldChange> {
    let text = |key: &str| after[key].as_str().unwrap_or_default();
    let of = type_of_object(text("apiVersion"), text("kind"));
    let fields = |object: &Value| -> BTreeMap<String, (String, Value)> {
        let leaves = paths::leaves(object).into_iter();
        leaves.map(|(place, value)| (place.path, (place.pointer, value.clone()))).collect()
    };
    let (before, after) = (fields(before), fields(after));
    let all: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    all.into_iter()
        .filter(|path| !SERVERS.iter().any(|server| path.starts_with(server)))
        .filter_map(|path| {
            let (old, new) = (before.get(path), after.get(path));
            let pointer = new.or(old).map(|(pointer, _)| pointer.clone()).unwrap_or_default();
            let (old, new) = (old.map(|(_, value)| value), new.map(|(_, value)| value));
            let change = || FieldChange {
                path: path.clone(),
                pointer: pointer.clone(),
                before: old.cloned(),
                after: new.cloned(),
                set_by: None,
            };
            // A quantity in another form, or a zero that Go leaves out, is no change.
            (!same_value(of, &pointer, old, new)).then(change)
        })
        .collect()
}

/// Returns why pods are replaced: pods are replaced when their template changes.
fn rollout_reasons(
    after: &Scene,
    service: &LLMInferenceService,
    planned: &PlannedService,
    change: &ChildChange,
) -> Option<Roll> {
    let (kind, name) = change.object.split_once('/')?;
    let pods = match kind {
        "Deployment" => "spec.template.",
        "LeaderWorkerSet" => "spec.leaderWorkerTemplate.",
        _ => return None,
    };
    let of_pods: Vec<&FieldChange> =
        change.fields.iter().filter(|field| field.path.starts_with(pods)).collect();
    if change.action != Action::Changed || of_pods.is_empty() {
        return None;
    }
    // A field that is gone has no trace in the new plan.
    let present: BTreeSet<&str> =
        of_pods.iter().filter(|field| field.after.is_some()).map(|field| field.path.as_str()).collect();
    let effective = planned.effective.as_ref().filter(|_| !present.is_empty());
    let mut sources = effective
        .map(|effective| {
            let view = View { scene: after, service, effective };
            explain::sources(view, &planned.plan, (kind, name), &present)
        })
        .unwrap_or_default();
    let because = of_pods.into_iter().map(|field| Cause {
        path: field.path.clone(),
        from: sources.remove(&field.path).unwrap_or_default(),
    });
    let because = because.collect();
    Some(Roll { object: change.object.clone(), because })
}
