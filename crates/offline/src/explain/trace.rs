//! Where the fields of children come from.
//!
//! Planning is a pure function and takes microseconds, so it is asked: a field of the effective spec is changed, the
//! service is planned again, and what differs in the children depends on that field. Where the child then has the changed
//! value itself, the field was copied. Nothing here knows how a child is made, so nothing here can be wrong about it.

use std::{collections::BTreeMap, sync::Arc};

use longboat_api::v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec};
use serde_json::{Value, json};

use crate::{objects::Object, paths, render, scene::Scene};

/// Appended to a text to have another one.
const CHANGE: &str = "-x";

/// What decides a field of a child.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trace {
    /// The field of the effective spec that it is a copy of, as a JSON pointer.
    pub(super) copied: Option<String>,
    /// Fields that it depends on otherwise: JSON pointers into the effective spec.
    pub(super) inputs: Vec<String>,
    /// What else it depends on, in words.
    pub(super) others: Vec<String>,
}

/// The children of the spec, and what decides each of these fields of theirs. Fields are an object's position and a JSON
/// pointer.
pub(super) fn of(
    scene: &Scene,
    service: &LLMInferenceService,
    spec: &LLMInferenceServiceSpec,
    objects: &[Object],
    fields: &[(usize, String)],
) -> BTreeMap<(usize, String), Trace> {
    let mut traces: BTreeMap<(usize, String), Trace> =
        fields.iter().map(|field| (field.clone(), Trace::default())).collect();
    // A spec always serialises: it has string keys only.
    let json = serde_json::to_value(spec).unwrap_or_default();
    let leaves: Vec<(String, Value)> =
        paths::leaves(&json).into_iter().map(|(place, value)| (place.pointer, value.clone())).collect();
    let mut changed = json.clone();
    for (pointer, value) in &leaves {
        let Some(other) = another(value) else { continue };
        let Some(slot) = changed.pointer_mut(pointer) else { continue };
        *slot = other.clone();
        let planned = plan(scene, service, &changed);
        if let Some(slot) = changed.pointer_mut(pointer) {
            *slot = value.clone();
        }
        let Some(planned) = planned.filter(|planned| alike(planned, objects)) else { continue };
        for ((at, field), trace) in &mut traces {
            let before = objects[*at].value.pointer(field);
            let after = planned[*at].value.pointer(field);
            if before == after {
                continue;
            }
            if before == Some(value) && after == Some(&other) && trace.copied.is_none() {
                trace.copied = Some(pointer.clone());
            } else {
                trace.inputs.push(pointer.clone());
            }
        }
    }
    for (words, service, scene_changed) in surroundings(scene, service) {
        let scene = scene_changed.as_ref().unwrap_or(scene);
        // What templates print depends on these too, so it begins with composing; where that fails (another namespace has
        // other configs), with the spec as it is.
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

fn plan(scene: &Scene, service: &LLMInferenceService, spec: &Value) -> Option<Vec<Object>> {
    let spec: LLMInferenceServiceSpec = serde_json::from_value(spec.clone()).ok()?;
    let (plan, ..) = scene.plan_spec(service, &spec).ok()?;
    Some(render::finished(&plan))
}

/// Whether both are the same kinds of objects, one by one.
fn alike(one: &[Object], other: &[Object]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| a.reference.kind == b.reference.kind)
}

/// Another value of the same type.
fn another(value: &Value) -> Option<Value> {
    Some(match value {
        Value::String(text) => json!(format!("{text}{CHANGE}")),
        Value::Bool(value) => json!(!value),
        Value::Number(number) => json!(number.as_i64()? + 1),
        _ => return None,
    })
}

/// The service's metadata and the platform's settings, changed one by one.
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
