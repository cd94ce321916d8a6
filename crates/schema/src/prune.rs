//! Dropping fields that a schema does not know, and the names of those fields.

use serde_json::{Map, Value};

use super::structural::{Additional, Node};

/// Fields that every resource has besides its schema.
const ROOT_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops from `object`, a whole resource, what `schema` does not know; the paths of what was dropped, sorted.
pub(crate) fn prune(object: &mut Value, schema: &Node) -> Vec<String> {
    let mut dropped = Vec::new();
    let mut path = Vec::new();
    node(object, Some(schema), true, &mut path, &mut dropped);
    dropped.sort();
    dropped
}

fn node(
    value: &mut Value,
    schema: Option<&Node>,
    root: bool,
    path: &mut Vec<String>,
    dropped: &mut Vec<String>,
) {
    let Some(schema) = schema else {
        return unknown(value, path, dropped);
    };
    let rooted = root || schema.embedded;
    match value {
        Value::Object(map) => {
            let keys: Vec<String> = map.keys().cloned().collect();
            for key in keys {
                if rooted && ROOT_FIELDS.contains(&key.as_str()) {
                    continue;
                }
                let next = match (schema.properties.get(key.as_str()), &schema.additional) {
                    (Some(child), _) => Some(Some(child)),
                    (None, Additional::Schema(child)) => Some(Some(&**child)),
                    (None, Additional::Any) if !schema.preserve => Some(None),
                    (None, _) if schema.preserve => continue,
                    (None, _) => None,
                };
                path.push(format!(".{key}"));
                match next {
                    Some(child) => {
                        if let Some(value) = map.get_mut(&key) {
                            node(value, child, false, path, dropped);
                        }
                    }
                    None => drop_field(map, &key, path, dropped),
                }
                path.pop();
            }
        }
        Value::Array(items) => {
            if schema.items.is_none() && schema.preserve {
                return;
            }
            for (index, item) in items.iter_mut().enumerate() {
                path.push(format!("[{index}]"));
                node(item, schema.items.as_deref(), false, path, dropped);
                path.pop();
            }
        }
        _ => {}
    }
}

/// A value without a schema: its objects lose all fields.
fn unknown(value: &mut Value, path: &mut Vec<String>, dropped: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let keys: Vec<String> = map.keys().cloned().collect();
            for key in keys {
                path.push(format!(".{key}"));
                drop_field(map, &key, path, dropped);
                path.pop();
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                path.push(format!("[{index}]"));
                unknown(item, path, dropped);
                path.pop();
            }
        }
        _ => {}
    }
}

fn drop_field(map: &mut Map<String, Value>, key: &str, path: &[String], dropped: &mut Vec<String>) {
    map.remove(key);
    let path = path.concat();
    dropped.push(path.strip_prefix('.').map_or_else(|| path.clone(), str::to_owned));
}
