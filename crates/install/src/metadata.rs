//! Names and labels of the objects of an installation.

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

/// Marks an object as part of an installation.
pub(crate) fn label(object: &mut Value) {
    object["metadata"]["labels"][LABEL] = LABEL_VALUE.into();
}
