//! Uniqueness of items in lists of type set and map.

use std::{collections::HashSet, hash::Hash};

use serde_json::Value;

use super::{
    path::Path,
    structural::{ListType, Node},
};
use crate::Cause;

/// Appends a cause for each item that repeats an earlier one.
pub(crate) fn check(value: &Value, schema: &Node, path: &str, causes: &mut Vec<Cause>) {
    walk(value, schema, &mut Path::at(path), causes);
}

fn walk(value: &Value, schema: &Node, path: &mut Path, causes: &mut Vec<Cause>) {
    if !schema.below.lists {
        return;
    }
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                if let Some(child) = schema.field(name).filter(|child| child.below.lists) {
                    path.member(name, |path| walk(value, child, path, causes));
                }
            }
        }
        Value::Array(items) => {
            match &schema.list {
                ListType::Atomic => {}
                ListType::Set => {
                    for index in repeated(items, |item| item) {
                        causes.push(Cause::duplicate(format!("{}[{index}]", &**path), &items[index]));
                    }
                }
                ListType::Map(keys) => {
                    for index in repeated(items, |item| key_of(item, keys)) {
                        let key = keys.iter().zip(key_of(&items[index], keys));
                        let key = key.filter_map(|(name, value)| Some((name.to_string(), value?.clone())));
                        let key = Value::Object(key.collect());
                        causes.push(Cause::duplicate(format!("{}[{index}]", &**path), &key));
                    }
                }
            }
            if let Some(child) = schema.items.as_deref().filter(|child| child.below.lists) {
                for (index, item) in items.iter().enumerate() {
                    path.item(index, |path| walk(item, child, path, causes));
                }
            }
        }
        _ => {}
    }
}

fn key_of<'a>(item: &'a Value, keys: &[Box<str>]) -> Vec<Option<&'a Value>> {
    keys.iter().map(|key| item.get(&**key)).collect()
}

/// Indices of the items whose key an earlier one has.
fn repeated<'a, K: Hash + Eq>(items: &'a [Value], key: impl Fn(&'a Value) -> K) -> Vec<usize> {
    if items.len() < 2 {
        return Vec::new();
    }
    let mut seen = HashSet::with_hasher(ahash::RandomState::new());
    let again = |(index, item)| (!seen.insert(key(item))).then_some(index);
    items.iter().enumerate().filter_map(again).collect()
}
