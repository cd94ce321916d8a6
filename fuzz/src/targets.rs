//! Fuzz targets of manifests and their processing: one function over bytes per target. The test that replays the stored corpus
//! shares this file.
#![allow(dead_code, reason = "each fuzz target uses one of them")]

use longboat_admission::{
    Facts, Hook, Request, Subject, Version, conversion_review as convert, review, validate,
};
use longboat_manifest::parse_all;
use longboat_patch::strategic;
use longboat_template::{Limits, Template, reflect};
use serde_json::{Value, json};

/// A target runs on one input.
pub(crate) type Target = fn(&[u8]);

/// All targets by name. The folders of the corpus have the same names.
pub(crate) const ALL: [(&str, Target); 6] = [
    ("admission_review", admission_review),
    ("conversion_review", conversion_review),
    ("manifest_yaml", manifest_yaml),
    ("config_template", config_template),
    ("strategic_merge", strategic_merge),
    ("template", template),
];

/// Every webhook must answer any body with a review or a refusal. A review must be valid JSON.
pub(crate) fn admission_review(data: &[u8]) {
    let facts = Facts::default();
    for hook in Hook::all() {
        if let Ok(answer) = review(hook, data, &facts) {
            assert!(serde_json::from_slice::<Value>(&answer).is_ok(), "the answer is no JSON");
        }
    }
}

/// Any conversion review must be answered, and converted objects must convert back.
pub(crate) fn conversion_review(data: &[u8]) {
    let Ok(answer) = convert(data) else { return };
    let answer: Value = serde_json::from_slice(&answer).expect("the answer is JSON");
    let objects = &answer["response"]["convertedObjects"];
    let Some(version) = objects[0]["apiVersion"].as_str() else { return };
    let back = if version.ends_with("v1alpha1") { "v1alpha2" } else { "v1alpha1" };
    let again = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "request": {"uid": "x", "desiredAPIVersion": format!("serving.kserve.io/{back}"), "objects": objects},
    });
    convert(again.to_string().as_bytes()).expect("what was answered can be asked");
}

/// Any text must be parsed or refused. Every parsed field must have a position in the text.
pub(crate) fn manifest_yaml(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let reading = parse_all("fuzz.yaml", text);
    for problem in &reading.problems {
        assert!(!problem.to_string().is_empty());
    }
    for document in &reading.documents {
        places(document, &document.object, &mut String::new());
        let _ = document.locate(text);
    }
}

fn places(document: &longboat_manifest::Document, value: &Value, path: &mut String) {
    let length = path.len();
    let mut below = |part: String, value: &Value| {
        path.push_str(&part);
        let _ = document.locate(path);
        places(document, value, path);
        path.truncate(length);
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| below(format!(".{name}"), value)),
        Value::Array(items) => items.iter().enumerate().for_each(|(i, value)| below(format!("[{i}]"), value)),
        _ => {}
    }
}

/// The webhook must accept or refuse any template in a config, which it renders.
pub(crate) fn config_template(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let config = json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceServiceConfig",
        "metadata": {"name": "fuzz", "namespace": "default"},
        "spec": {
            "model": {"uri": text, "name": text},
            "template": {"containers": [{"name": "main", "image": text, "args": [text]}]},
        },
    });
    let request =
        Request { version: Version::V1Alpha2, operation: "CREATE", object: Some(&config), old: None };
    let _ = validate(Subject::Config, &request, &Facts::default());
}

/// The lines are a base and a patch, which must merge or be refused.
pub(crate) fn strategic_merge(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Some((base, patch)) = text.split_once('\n') else { return };
    let (Ok(base), Ok(patch)) = (serde_json::from_str::<Value>(base), serde_json::from_str::<Value>(patch))
    else {
        return;
    };
    for name in ["LLMInferenceServiceSpec", "PodSpec"] {
        let _ = strategic::merge(base.clone(), patch.clone(), name);
    }
}

/// Any template must parse and run within its limits, or be refused.
pub(crate) fn template(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(template) = Template::parse("fuzz", text, &[]) else { return };
    let data = json!({"Name": "x", "Spec": {"Replicas": 2, "Items": ["a", "b"], "Labels": {"a": "b"}}, "None": null});
    let _ = template.execute(&reflect::Value::any(&data), Limits::default());
}
