//! Finds the origin of the fields of children: in the composed spec ([`longboat_plan::trace`]), in the service's metadata,
//! and in the platform's settings.

use std::collections::BTreeMap;

use longboat_api::v1alpha2::{LLMInferenceService, LLMInferenceServiceSpec};
use longboat_compose::Platform;
use longboat_plan::trace::{CHANGE, GROUPS, Probe, Target, Traces, have_same_kinds};
use serde_json::Value;

use crate::{objects::Object, render, scene::Scene};

/// Returns the origin of each of these fields in the children of a spec.
pub(super) fn of(
    scene: &Scene,
    service: &LLMInferenceService,
    spec: &LLMInferenceServiceSpec,
    objects: &[Object],
    fields: &[Target],
) -> Traces {
    // A spec can always be serialized, because it has only string keys.
    let json = serde_json::to_value(spec).unwrap_or_default();
    let before = values(objects);
    let plan_changed = |spec: &LLMInferenceServiceSpec| plan(scene, service, spec);
    let probe = Probe { plan: &plan_changed, spec: &json, objects: &before };
    let mut traces = probe.traces(fields, GROUPS);
    // Of a field that is copied, only the place from which it is copied is told.
    if traces.values().all(|trace| trace.copied.is_some()) {
        return traces;
    }
    let same = of_service(service).into_iter().map(|(words, changed)| (words, scene, changed));
    let platforms = scene.changed_platforms(platforms).iter();
    let platforms =
        platforms.map(|(words, changed)| (format!("the platform's {words}"), changed, service.clone()));
    for (words, scene, service) in same.chain(platforms) {
        // The output of templates depends on these inputs too, so this starts with composition. If that fails (another
        // namespace has other configs), it starts with the unchanged composed spec.
        let composed = scene.plan(&service).ok().map(|planned| values(&render::finished(&planned.plan)));
        let planned = composed.or_else(|| plan(scene, &service, spec));
        // Fields are compared by the positions of their objects, so both plans need the same objects.
        let Some(planned) = planned.filter(|planned| have_same_kinds(planned, &before)) else { continue };
        for ((at, field), trace) in &mut traces {
            if before[*at].pointer(field) != planned[*at].pointer(field) {
                trace.others.push(words.clone());
            }
        }
    }
    traces
}

fn plan(scene: &Scene, service: &LLMInferenceService, spec: &LLMInferenceServiceSpec) -> Option<Vec<Value>> {
    let (plan, ..) = scene.plan_spec(service, spec).ok()?;
    Some(values(&render::finished(&plan)))
}

fn values(objects: &[Object]) -> Vec<Value> {
    objects.iter().map(|object| object.value.clone()).collect()
}

/// Returns the service with its metadata changed one by one.
fn of_service(service: &LLMInferenceService) -> Vec<(String, LLMInferenceService)> {
    let mut all = Vec::new();
    let mut with = |words: &str, change: &dyn Fn(&mut LLMInferenceService)| {
        let mut service = service.clone();
        change(&mut service);
        all.push((words.to_owned(), service));
    };
    let append = |text: &mut Option<String>| {
        if let Some(text) = text {
            text.push_str(CHANGE);
        }
    };
    let replace = |map: &mut Option<BTreeMap<String, String>>, key: &str| {
        map.get_or_insert_default().insert(key.to_owned(), "changed".to_owned());
    };
    with("metadata.name", &|service| append(&mut service.metadata.name));
    with("metadata.namespace", &|service| append(&mut service.metadata.namespace));
    with("metadata.uid", &|service| append(&mut service.metadata.uid));
    for key in service.metadata.labels.iter().flatten().map(|(key, _)| key) {
        with(&format!("metadata.labels[{key}]"), &|service| replace(&mut service.metadata.labels, key));
    }
    for key in service.metadata.annotations.iter().flatten().map(|(key, _)| key) {
        with(&format!("metadata.annotations[{key}]"), &|service| {
            replace(&mut service.metadata.annotations, key);
        });
    }
    all
}

/// Returns the settings of the platform, changed one by one.
fn platforms(unchanged: &Platform) -> Vec<(&'static str, Platform)> {
    let mut all = Vec::new();
    let mut platform = |words, change: &dyn Fn(&mut Platform)| {
        let mut settings = unchanged.clone();
        change(&mut settings);
        all.push((words, settings));
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

    use longboat_plan::{
        paths,
        trace::{GROUPS, Probe, Target, count_changes},
    };

    use crate::{render, scene::Scene, settings::Settings};

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
            let (values, plan) =
                (super::values(&objects), |spec: &longboat_api::v1alpha2::LLMInferenceServiceSpec| {
                    super::plan(&scene, service, spec)
                });
            let probe = Probe { plan: &plan, spec: &spec, objects: &values };
            let single = probe.traces(&fields, count_changes(&spec));
            let grouped = probe.traces(&fields, GROUPS);
            for (field, expected) in &single {
                assert_eq!(&grouped[field], expected, "{case}: {} {}", objects[field.0].reference, field.1);
            }
        }
    }
}
