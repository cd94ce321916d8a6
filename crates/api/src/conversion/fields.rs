//! Fields and annotations of objects as JSON.

use serde_json::{Map, Value};

/// A JSON object.
pub(super) type Fields = Map<String, Value>;

/// Returns the map at a path of keys, if every step is a map.
pub(super) fn map_at<'a>(mut map: &'a mut Fields, path: &[&str]) -> Option<&'a mut Fields> {
    for key in path {
        map = map.get_mut(*key)?.as_object_mut()?;
    }
    Some(map)
}

/// Returns the annotations of an object. Creates them if they are missing.
pub(super) fn annotations(object: &mut Fields) -> Result<&mut Fields, &'static str> {
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Fields::new()));
    let Value::Object(metadata) = metadata else { return Err("metadata") };
    annotations_of(metadata).ok_or("metadata.annotations")
}

/// Returns the annotations in `metadata` or `status`. Creates them if they are missing.
pub(super) fn annotations_of(parent: &mut Fields) -> Option<&mut Fields> {
    let annotations = parent.entry("annotations").or_insert(Value::Null);
    if annotations.is_null() {
        *annotations = Value::Object(Fields::new());
    }
    annotations.as_object_mut()
}

/// Removes and returns an annotation in an object's metadata. Removes an empty map, too.
pub(super) fn take_annotation(object: &mut Fields, key: &str) -> Option<Value> {
    take_annotation_of(object.get_mut("metadata")?.as_object_mut()?, key)
}

/// Removes and returns an annotation in `metadata` or `status`. Removes an empty map, too.
pub(super) fn take_annotation_of(parent: &mut Fields, key: &str) -> Option<Value> {
    let annotations = parent.get_mut("annotations")?.as_object_mut()?;
    let value = annotations.remove(key)?;
    if annotations.is_empty() {
        parent.remove("annotations");
    }
    Some(value)
}
