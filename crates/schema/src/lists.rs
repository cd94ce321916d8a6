//! Uniqueness of items in lists of type set and map.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::structural::{ListType, Node};
use crate::Cause;

/// Appends a cause for each item that repeats an earlier one.
pub(crate) fn check(value: &Value, schema: &Node, path: &str, causes: &mut Vec<Cause>) {
    if !schema.below.lists {
        return;
    }
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                if let Some(child) = schema.field(name) {
                    check(value, child, &super::validate::join(path, name), causes);
                }
            }
        }
        Value::Array(items) => {
            match &schema.list {
                ListType::Atomic => {}
                ListType::Set => repeated(items.iter().map(Clone::clone), path, causes),
                ListType::Map(keys) => repeated(
                    items.iter().map(|item| {
                        Value::Object(
                            keys.iter()
                                .filter_map(|key| Some((key.to_string(), item.get(&**key)?.clone())))
                                .collect::<Map<_, _>>(),
                        )
                    }),
                    path,
                    causes,
                ),
            }
            if let Some(child) = schema.items.as_deref().filter(|child| child.below.lists) {
                for (index, item) in items.iter().enumerate() {
                    check(item, child, &format!("{path}[{index}]"), causes);
                }
            }
        }
        _ => {}
    }
}

fn repeated(items: impl Iterator<Item = Value>, path: &str, causes: &mut Vec<Cause>) {
    let mut seen = HashSet::new();
    for (index, item) in items.enumerate() {
        if !seen.insert(item.to_string()) {
            causes.push(Cause::duplicate(format!("{path}[{index}]"), &item));
        }
    }
}
