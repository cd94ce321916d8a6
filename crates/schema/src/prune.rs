//! Drops fields that a schema does not have, and returns their names.

use serde_json::Value;

use super::{
    path::Path,
    structural::{Additional, Node},
};

/// Fields that every resource has besides its schema.
const ROOT_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops from `object`, a complete resource, all fields that `schema` does not have. Returns their paths, sorted.
pub(crate) fn prune(object: &mut Value, schema: &Node) -> Vec<String> {
    dropped(object, schema, true)
}

/// As [`prune`], for the value of a field.
pub(crate) fn prune_field(value: &mut Value, schema: &Node) -> Vec<String> {
    dropped(value, schema, false)
}

fn dropped(value: &mut Value, schema: &Node, root: bool) -> Vec<String> {
    let mut dropped = Vec::new();
    node(value, schema, root, &mut Path::default(), &mut dropped);
    dropped.sort();
    dropped
}

fn node(value: &mut Value, schema: &Node, root: bool, path: &mut Path, dropped: &mut Vec<String>) {
    let rooted = root || schema.embedded;
    match value {
        Value::Object(map) => map.retain(|name, value| {
            if rooted && ROOT_FIELDS.contains(&name.as_str()) {
                return true;
            }
            path.member(name, |path| {
                if let Some(child) = schema.field(name) {
                    node(value, child, false, path, dropped);
                } else if !schema.preserve {
                    if !matches!(schema.additional, Additional::Any) {
                        dropped.push(path.to_string());
                        return false;
                    }
                    unknown(value, path, dropped);
                }
                true
            })
        }),
        Value::Array(items) => {
            if schema.items.is_none() && schema.preserve {
                return;
            }
            for (index, item) in items.iter_mut().enumerate() {
                path.item(index, |path| match &schema.items {
                    Some(schema) => node(item, schema, false, path, dropped),
                    None => unknown(item, path, dropped),
                });
            }
        }
        _ => {}
    }
}

/// Drops all fields of the objects in a value without a schema.
fn unknown(value: &mut Value, path: &mut Path, dropped: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.retain(|name, _| {
            path.member(name, |path| dropped.push(path.to_string()));
            false
        }),
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                path.item(index, |path| unknown(item, path, dropped));
            }
        }
        _ => {}
    }
}
