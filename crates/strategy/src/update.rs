//! What an update keeps of the stored object, and whether it changes anything.

use serde_json::{Map, Value};

/// Restores the labels in an update of the status.
pub(crate) fn keep_labels(value: &mut Value, live: &Value) {
    put(&mut value["metadata"], "labels", live["metadata"].get("labels").cloned());
}

/// Restores a field.
pub(crate) fn keep(value: &mut Value, live: &Value, key: &str) {
    put(value, key, live.get(key).cloned());
}

/// Sets a field, or removes it.
pub fn put(value: &mut Value, key: &str, content: Option<Value>) {
    match content {
        Some(content) => value[key] = content,
        None => {
            if let Some(object) = value.as_object_mut() {
                object.remove(key);
            }
        }
    }
}

/// Whether anything but the metadata differs, and the status unless it does not count.
pub(crate) fn differs(value: &Value, live: &Value, without_status: bool) -> bool {
    let relevant = |object: &Value| -> Map<String, Value> {
        object
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, _)| *key != "metadata" && !(without_status && *key == "status"))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    relevant(value) != relevant(live)
}
