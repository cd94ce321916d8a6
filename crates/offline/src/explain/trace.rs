//! Finds the origin of the fields of children.
//!
//! Planning is a pure function that takes microseconds. So this module changes fields of the composed spec, plans the service
//! again, and compares: the fields of children that differ depend on the changed fields. If a child then has the changed
//! value itself, it was copied. This module has no knowledge of how children are planned, so it cannot contradict the
//! planner.

use std::{collections::BTreeMap, sync::Arc};

use longboat_api::v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec};
use serde_json::{Value, json};

use crate::{objects::Object, paths, render, scene::Scene};

/// The suffix that makes a string differ.
const CHANGE: &str = "-x";

/// The number of groups into which the fields of a spec are divided. Two changes in the same group can hide each other, for
/// instance if a field disables what another one configures. Neighbours are in different groups, and then the results equal
/// those of single changes.
const GROUPS: usize = 16;

/// A field of a child: the object's position, and a JSON pointer.
pub(super) type Target = (usize, String);

/// The origins of fields of children.
pub(super) type Traces = BTreeMap<Target, Trace>;

/// The origin of a field of a child.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trace {
    /// The field of the composed spec from which it is copied, as a JSON pointer.
    pub(super) copied: Option<String>,
    /// Other fields on which it depends, as JSON pointers into the composed spec.
    pub(super) inputs: Vec<String>,
    /// Other inputs on which it depends, in words.
    pub(super) others: Vec<String>,
}

/// Returns the origin of each of these fields in the children of a spec.
pub(super) fn of(
    scene: &Scene,
    service: &LLMInferenceService,
    spec: &LLMInferenceServiceSpec,
    objects: &[Object],
    fields: &[Target],
) -> Traces {
    // A spec always serialises: it has string keys only.
    let json = serde_json::to_value(spec).unwrap_or_default();
    let probe = Probe { scene, service, spec: &json, objects };
    let mut traces = probe.traces(fields, GROUPS);
    for (words, service, scene_changed) in surroundings(scene, service) {
        let scene = scene_changed.as_ref().unwrap_or(scene);
        // The output of templates depends on these inputs too, so this starts with composition. If that fails (another
        // namespace has other configs), it starts with the unchanged composed spec.
        let composed = scene.plan(&service).ok().map(|planned| render::finished(&planned.plan));
        let planned = composed.or_else(|| plan(scene, &service, &json));
        let Some(planned) = planned.filter(|planned| alike(planned, objects)) else { continue };
        for ((at, field), trace) in &mut traces {
            if objects[*at].value.pointer(field) != planned[*at].value.pointer(field) {
                trace.others.push(words.clone());
            }
        }
    }
    traces
}

/// A field of the composed spec, and its changed value.
struct Edit {
    /// Its position among the changes.
    number: usize,
    pointer: String,
    before: Value,
    after: Value,
}

/// The changes on which a field of a child was found to depend, by number.
#[derive(Clone, Default)]
struct Found {
    copied: Option<usize>,
    inputs: Vec<usize>,
}

/// Plans the service with changed specs.
struct Probe<'a> {
    scene: &'a Scene,
    service: &'a LLMInferenceService,
    spec: &'a Value,
    objects: &'a [Object],
}

// === impl Probe ===

impl Probe<'_> {
    /// Finds the origins of these fields with changes in this number of groups.
    fn traces(&self, fields: &[Target], groups: usize) -> Traces {
        let changes = changes(self.spec);
        let mut found: BTreeMap<Target, Found> =
            fields.iter().map(|field| (field.clone(), Found::default())).collect();
        for first in 0..groups {
            let group: Vec<&Edit> = changes.iter().skip(first).step_by(groups).collect();
            self.within(&group, fields.to_vec(), &mut found);
        }
        let pointer = |number: usize| changes[number].pointer.clone();
        let described = found.into_iter().map(|(field, mut found)| {
            found.inputs.sort_unstable();
            let inputs = match found.copied {
                // For a copy, other dependencies are left out.
                Some(_) => Vec::new(),
                None => found.inputs.into_iter().map(pointer).collect(),
            };
            (field, Trace { copied: found.copied.map(pointer), inputs, others: Vec::new() })
        });
        described.collect()
    }

    /// Finds the origins of these fields among some changes. All changes are made at once: a field that stays the same
    /// depends on none of them, and a field that has the value of a change is a copy. For the remaining fields, each half of
    /// the changes is tried. So explaining a field takes a few plans instead of one for each field of the spec.
    fn within(&self, changes: &[&Edit], fields: Vec<Target>, found: &mut BTreeMap<Target, Found>) {
        if changes.is_empty() || fields.is_empty() {
            return;
        }
        let mut spec = self.spec.clone();
        for change in changes {
            if let Some(slot) = spec.pointer_mut(&change.pointer) {
                slot.clone_from(&change.after);
            }
        }
        let planned = plan(self.scene, self.service, &spec).filter(|planned| alike(planned, self.objects));
        let open = match planned {
            Some(planned) => self.undecided(&planned, changes, fields, found),
            // The changed spec cannot be planned, or has other children. The halves will show which change causes that.
            None => fields,
        };
        if changes.len() > 1 {
            let (first, second) = changes.split_at(changes.len() / 2);
            self.within(first, open.clone(), found);
            self.within(second, open, found);
        }
    }

    /// Records which fields are copies of changed ones. Returns the fields that differ for another reason.
    fn undecided(
        &self,
        planned: &[Object],
        changes: &[&Edit],
        mut fields: Vec<Target>,
        found: &mut BTreeMap<Target, Found>,
    ) -> Vec<Target> {
        fields.retain(|field| {
            let before = self.objects[field.0].value.pointer(&field.1);
            let after = planned[field.0].value.pointer(&field.1);
            // If elements were added or removed, another element may be at this position.
            let moved = changes.len() > 1
                && !aligned(&self.objects[field.0].value, &planned[field.0].value, &field.1);
            let Some(found) = found.get_mut(field).filter(|_| moved || before != after) else { return false };
            // There are only two booleans, so any of several changes may have caused this one.
            let telling = changes.len() == 1 || !(moved || before.is_some_and(Value::is_boolean));
            let copied = changes
                .iter()
                .find(|change| telling && before == Some(&change.before) && after == Some(&change.after));
            match (copied, changes) {
                (Some(change), _) => {
                    let first = found.copied.map_or(change.number, |other| other.min(change.number));
                    found.copied = Some(first);
                    false
                }
                (None, [only]) => {
                    found.inputs.push(only.number);
                    false
                }
                (None, _) => true,
            }
        });
        fields
    }
}

/// Whether the lists on the path to a field have the same length in both objects.
fn aligned(one: &Value, other: &Value, pointer: &str) -> bool {
    let ends = pointer.match_indices('/').map(|(at, _)| &pointer[..at]);
    ends.into_iter().all(|end| {
        let length = |object: &Value| object.pointer(end).and_then(Value::as_array).map(Vec::len);
        length(one) == length(other)
    })
}

/// Returns a changed value for each field of a spec. Fields with equal values get different changes.
fn changes(spec: &Value) -> Vec<Edit> {
    let mut same: BTreeMap<String, i64> = BTreeMap::new();
    let mut all = Vec::new();
    for (place, value) in paths::leaves(spec) {
        let count = same.entry(value.to_string()).or_default();
        let Some(after) = another(value, *count) else { continue };
        *count += 1;
        all.push(Edit { number: all.len(), pointer: place.pointer, before: value.clone(), after });
    }
    all
}

fn plan(scene: &Scene, service: &LLMInferenceService, spec: &Value) -> Option<Vec<Object>> {
    let spec: LLMInferenceServiceSpec = serde_json::from_value(spec.clone()).ok()?;
    let (plan, ..) = scene.plan_spec(service, &spec).ok()?;
    Some(render::finished(&plan))
}

/// Whether both lists have the same kinds of objects in the same order.
fn alike(one: &[Object], other: &[Object]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| a.reference.kind == b.reference.kind)
}

/// Returns another value of the same type. It differs for each number.
fn another(value: &Value, number: i64) -> Option<Value> {
    Some(match value {
        Value::String(text) if number == 0 => json!(format!("{text}{CHANGE}")),
        Value::String(text) => json!(format!("{text}{CHANGE}{number}")),
        Value::Bool(value) => json!(!value),
        Value::Number(old) => json!(old.as_i64()? + 1 + number),
        _ => return None,
    })
}

/// Returns the service's metadata and the platform settings, changed one by one.
fn surroundings(
    scene: &Scene,
    service: &LLMInferenceService,
) -> Vec<(String, LLMInferenceService, Option<Scene>)> {
    let mut all = Vec::new();
    let mut with = |words: &str, change: &dyn Fn(&mut LLMInferenceService)| {
        let mut service = service.clone();
        change(&mut service);
        all.push((words.to_owned(), service, None));
    };
    let append = |text: &mut Option<String>| {
        if let Some(text) = text {
            text.push_str(CHANGE);
        }
    };
    with("metadata.name", &|service| append(&mut service.metadata.name));
    with("metadata.namespace", &|service| append(&mut service.metadata.namespace));
    with("metadata.uid", &|service| append(&mut service.metadata.uid));
    for key in service.metadata.labels.iter().flatten().map(|(key, _)| key) {
        with(&format!("metadata.labels[{key}]"), &|service| {
            service.metadata.labels.iter_mut().for_each(|all| {
                all.insert(key.clone(), "changed".to_owned());
            });
        });
    }
    for key in service.metadata.annotations.iter().flatten().map(|(key, _)| key) {
        with(&format!("metadata.annotations[{key}]"), &|service| {
            service.metadata.annotations.iter_mut().for_each(|all| {
                all.insert(key.clone(), "changed".to_owned());
            });
        });
    }
    let mut platform = |words: &str, change: &dyn Fn(&mut longboat_compose::Platform)| {
        let mut settings = (*scene.snapshot().platform).clone();
        change(&mut settings);
        let changed = scene.with_platform(Arc::new(settings));
        all.push((format!("the platform's {words}"), service.clone(), Some(changed)));
    };
    platform("storageInitializer.image", &|all| all.storage.image.push_str(CHANGE));
    platform("storageInitializer.cpuRequest", &|all| all.storage.cpu_request.push('1'));
    platform("storageInitializer.cpuLimit", &|all| all.storage.cpu_limit.push('1'));
    platform("storageInitializer.memoryRequest", &|all| all.storage.memory_request.insert(0, '1'));
    platform("storageInitializer.memoryLimit", &|all| all.storage.memory_limit.insert(0, '1'));
    platform("ingress.enableLLMInferenceServiceTLS", &|all| all.ingress.enable_tls ^= true);
    platform("ingress.modelBasedRoutingHeaderName", &|all| all.ingress.model_header.push_str(CHANGE));
    all
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::{GROUPS, Probe, Target, changes};
    use crate::{paths, render, scene::Scene, settings::Settings};

    /// A small case, and a case in which most fields hide others: settings add and remove matches of routes.
    const CASES: [&str; 2] = ["base-refs", "adapters-and-cache-tiers"];

    #[test]
    fn changes_in_groups_tell_what_single_changes_tell() {
        for case in CASES {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases/compose").join(case);
            let text = fs::read_to_string(file.join("input.yaml")).unwrap();
            let documents = longboat_manifest::parse("input.yaml", &text).unwrap();
            let scene = Scene::new(&documents, &Settings::default()).unwrap();
            let service = &scene.subjects[0].service;
            let spec = scene.compose(service).unwrap().spec;
            let objects = render::finished(&scene.plan_spec(service, &spec).unwrap().0);
            let fields: Vec<Target> = objects
                .iter()
                .enumerate()
                .flat_map(|(at, object)| {
                    paths::leaves(&object.value).into_iter().map(move |(place, _)| (at, place.pointer))
                })
                .collect();
            let spec = serde_json::to_value(&spec).unwrap();
            let probe = Probe { scene: &scene, service, spec: &spec, objects: &objects };
            let single = probe.traces(&fields, changes(&spec).len());
            let grouped = probe.traces(&fields, GROUPS);
            for (field, expected) in &single {
                assert_eq!(&grouped[field], expected, "{case}: {} {}", objects[field.0].reference, field.1);
            }
        }
    }
}
