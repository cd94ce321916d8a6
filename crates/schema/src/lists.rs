//! Checks that items are unique in lists of type set and map.

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
                    for (index, item) in
                        items.iter().enumerate().filter(|(_, item)| !item.is_object() && !item.is_null())
                    {
                        let detail = "must be an object for an array of list-type map";
                        causes.push(Cause::invalid(format!("{}[{index}]", &**path), item, detail));
                    }
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

/// The indices of the items whose key an earlier item has.
fn repeated<'a, K: Hash + Eq>(items: &'a [Value], key: impl Fn(&'a Value) -> K) -> Vec<usize> {
    if items.len() < 2 {
        return Vec::new();
    }
    let mut seen = HashSet::with_hasher(ahash::RandomState::new());
    let again = |(index, item)| (!seen.insert(key(item))).then_some(index);
    items.iter().enumerate().filter_map(again).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::check;
    use crate::structural::Node;

    /// The paths of items that repeat earlier ones, with the repeated value.
    fn repeated(value: &Value) -> Vec<(String, String)> {
        let schema = json!({"type": "object", "properties": {
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "ports": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
                "items": {"type": "object", "properties": {
                    "port": {"type": "integer"}, "protocol": {"type": "string"}, "set": {
                        "type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"},
                    },
                }},
            },
        }});
        let mut causes = Vec::new();
        check(value, &Node::compile(&schema.to_string()), "", &mut causes);
        causes.into_iter().map(|cause| (cause.field, cause.message)).collect()
    }

    #[test]
    fn each_item_that_repeats_another_is_named_with_what_it_repeats() {
        let found = repeated(&json!({
            "set": ["a", "b", "a", "a"],
            "ports": [
                {"port": 1}, {"port": 1, "protocol": "TCP", "set": [3]}, {"port": 1, "set": [2, 1, 2]},
                {"port": 1, "protocol": "TCP"}, {"port": 1, "protocol": null},
            ],
        }));
        let expected = [
            ("ports[2]", r#"Duplicate value: {"port":1}"#),
            ("ports[3]", r#"Duplicate value: {"port":1,"protocol":"TCP"}"#),
            ("ports[2].set[2]", "Duplicate value: 2"),
            ("set[2]", r#"Duplicate value: "a""#),
            ("set[3]", r#"Duplicate value: "a""#),
        ];
        assert_eq!(found, expected.map(|(field, message)| (field.to_owned(), message.to_owned())));
    }

    #[test]
    fn numbers_that_are_written_differently_are_different_and_one_item_repeats_nothing() {
        assert_eq!(repeated(&json!({"set": ["a"], "ports": [{"port": 1}, {"port": 1.0}]})), []);
    }
}
