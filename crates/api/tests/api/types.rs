//! Compares types and names with the recordings.

use longboat_api::child_name;
use longboat_api::v1alpha2::{LLMInferenceService, LLMInferenceServiceStatus};
use serde_json::Value;

use longboat_golden::part;

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

#[test]
fn children_are_named_as_the_reference_names_them() {
    let table = part("merge").join("childname.yaml").yaml();
    for case in table.as_array().unwrap() {
        let text = |key: &str| case[key].as_str().unwrap().to_owned();
        assert_eq!(child_name(&text("parent"), &text("suffix")), text("result"));
    }
}

/// Removes empty fields that KServe prints in pod specs, and fields that KServe does not print although they are set.
fn without_empties(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.values_mut().for_each(without_empties);
            object.retain(|_, v| match v {
                Value::Null => false,
                Value::Object(o) => !o.is_empty(),
                Value::Array(a) => !a.is_empty(),
                Value::String(s) => !s.is_empty(),
                _ => true,
            });
        }
        Value::Array(list) => list.iter_mut().for_each(without_empties),
        _ => {}
    }
}

#[test]
fn stored_services_survive_a_round_trip_through_the_types() {
    let mut seen = 0;
    for case in part("cases").folders() {
        for file in case.join("expected").entries() {
            if !file.name().starts_with("service") {
                continue;
            }
            let mut stored = file.yaml();
            if stored["apiVersion"] != "serving.kserve.io/v1alpha2" {
                continue;
            }
            let typed: LLMInferenceService =
                serde_json::from_value(stored.clone()).unwrap_or_else(|e| panic!("{file}: {e}"));
            let mut printed = serde_json::to_value(&typed).unwrap();
            for value in [&mut stored, &mut printed] {
                value.as_object_mut().unwrap().remove("metadata");
                value.as_object_mut().unwrap().remove("status");
                without_empties(value);
            }
            similar_asserts(&file.to_string(), &stored["spec"], &printed["spec"]);
            seen += 1;
        }
    }
    assert!(seen > 100, "only {seen} services were found");
}

#[test]
fn recorded_statuses_survive_a_round_trip_exactly() {
    let mut seen = 0;
    for case in part("cases").folders() {
        let file = case.join("expected/status.yaml");
        let Some(text) = file.text() else { continue };
        let recorded = yaml(&text.replace("<time>", "2026-11-20T10:00:00Z"));
        let typed: LLMInferenceServiceStatus =
            serde_json::from_value(recorded.clone()).unwrap_or_else(|e| panic!("{file}: {e}"));
        similar_asserts(&file.to_string(), &recorded, &serde_json::to_value(&typed).unwrap());
        seen += 1;
    }
    assert!(seen > 100, "only {seen} statuses were found");
}

/// Asserts that two values are equal, with a readable failure.
fn similar_asserts(what: &str, left: &Value, right: &Value) {
    if left != right {
        let text = |v: &Value| serde_json::to_string_pretty(v).unwrap();
        assert_eq!(text(left), text(right), "{what}");
    }
}
