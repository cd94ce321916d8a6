//! Compares conversions with the objects that KServe has shown in `v1alpha1`.

use longboat_api::conversion::{KEPT_PREFIX, LORA_CRITICALITIES};
use serde_json::Value;

use super::{differences, down, up};
use longboat_golden::{Entry, part};

/// Removes the parts of a service that differ from KServe (`compatibility.yaml#v1alpha1-kept`).
fn without_kept(mut object: Value) -> Value {
    for parent in ["metadata", "status"] {
        let Some(Value::Object(parent)) = object.get_mut(parent) else { continue };
        let Some(Value::Object(annotations)) = parent.get_mut("annotations") else { continue };
        let before = annotations.len();
        annotations.retain(|key, _| !key.starts_with(KEPT_PREFIX));
        let emptied = annotations.is_empty() && before > 0;
        if emptied {
            parent.remove("annotations");
        }
    }
    object
}

/// Removes an annotations map that is empty after the comparison.
fn without_empty(mut object: Value) -> Value {
    let metadata = object["metadata"].as_object_mut().unwrap();
    if metadata.get("annotations") == Some(&Value::Object(serde_json::Map::new())) {
        metadata.remove("annotations");
    }
    object
}

fn read(file: &Entry) -> Option<Value> {
    Some(serde_saphyr::from_str(&file.text()?).unwrap())
}

#[test]
fn services_look_in_v1alpha1_as_those_of_the_reference() {
    let cases = part("cases");
    let mut seen = 0;
    for case in cases.folders() {
        for stage in case.folders() {
            for suffix in ["", "-llm", "-bad"] {
                let file = |what: &str| read(&stage.join(&format!("{what}{suffix}.yaml")));
                let Some(wanted) = read(&stage.join(&format!("service{suffix}.v1alpha1.yaml"))) else {
                    continue;
                };
                // A stage only contains files that have changed.
                let before = |what: &str| read(&case.join(&format!("expected/{what}{suffix}.yaml")));
                let mut object = file("service").or_else(|| before("service")).unwrap();
                if let Some(status) = file("status").or_else(|| before("status")) {
                    object["status"] = status;
                }
                let older = down(&object);
                let none = Vec::<String>::new();
                assert_eq!(differences(&without_kept(older.clone()), &wanted), none, "{stage}");
                // Entries without an adapter are dropped, as in KServe.
                let mut back = up(&older);
                for object in [&mut back, &mut object] {
                    if let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") {
                        annotations.remove(LORA_CRITICALITIES);
                    }
                }
                assert_eq!(differences(&without_empty(back), &without_empty(object)), none, "{stage}");
                seen += 1;
            }
        }
    }
    assert!(seen >= 7, "only {seen} recordings compared");
}

#[test]
fn services_written_in_v1alpha1_are_stored_as_those_of_the_reference() {
    let cases = part("cases");
    let case = cases.join("conv-v1alpha1-update-through-v1alpha2");
    let input = read(&case.join("input/00-llminferenceservice-llm.yaml")).unwrap();
    let mut wanted = read(&case.join("expected/service.yaml")).unwrap();
    let metadata = wanted["metadata"].as_object_mut().unwrap();
    metadata.remove("finalizers");
    metadata.remove("namespace");
    // This is a default of the schema.
    let picker = wanted.pointer_mut("/spec/router/scheduler/pool/spec/endpointPickerRef").unwrap();
    picker.as_object_mut().unwrap().remove("group");
    assert_eq!(up(&input), wanted);
}

#[test]
fn what_the_reference_lost_through_v1alpha1_is_still_there() {
    let cases = part("cases");
    let case = cases.join("conv-v1alpha2-rich");
    let stored = read(&case.join("expected/service.yaml")).unwrap();
    let lost = read(&case.join("expected-1-put-through-v1alpha1/service.yaml")).unwrap();
    assert_ne!(stored["spec"], lost["spec"]);
    assert_eq!(up(&down(&stored)), stored);
}
