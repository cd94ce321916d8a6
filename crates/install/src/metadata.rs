//! Names and labels of the objects of an installation.

use longboat_api::names::DEFAULT_SYSTEM_NAMESPACE;
use serde_json::{Value, json};

use crate::names::{LABEL, LABEL_VALUE};

/// Metadata for one of our objects.
pub(crate) fn metadata(name: &str, namespace: &str) -> Value {
    json!({
        "name": name,
        "namespace": namespace,
        "labels": {
            "app.kubernetes.io/name": "longboat",
            "app.kubernetes.io/component": "controller",
            LABEL: LABEL_VALUE,
        },
    })
}

/// Reads objects that are written by hand, and makes them part of an installation in this namespace.
pub(crate) fn placed(text: &str, namespace: &str) -> Result<Vec<Value>, serde_saphyr::Error> {
    let mut objects: Vec<Value> = serde_saphyr::from_multiple(text)?;
    for object in &mut objects {
        label(object);
        move_to(&mut object["metadata"], namespace);
        for subject in object.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
            move_to(subject, namespace);
        }
    }
    Ok(objects)
}

fn move_to(named: &mut Value, namespace: &str) {
    if named["namespace"] == DEFAULT_SYSTEM_NAMESPACE {
        named["namespace"] = namespace.into();
    }
}

/// Marks an object as part of an installation.
pub(crate) fn label(object: &mut Value) {
    object["metadata"]["labels"][LABEL] = LABEL_VALUE.into();
}
