//! The items of lists of type set and map: that they are unique, and which stored item an item replaces.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
};

use serde_json::Value;

use super::{
    path::Path,
    structural::{ListType, Node},
};
use crate::Cause;

/// Appends a cause for each item that repeats an earlier one.
pub(crate) fn check(value: &Value, schema: &Node, causes: &mut Vec<Cause>) {
    walk(value, schema, &mut Path::default(), causes);
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

/// The stored items of a list by their keys.
pub(crate) struct StoredItems<'a> {
    keys: &'a [Box<str>],
    by_key: HashMap<Vec<Option<&'a Value>>, &'a Value, ahash::RandomState>,
}

// === impl StoredItems ===

impl<'a> StoredItems<'a> {
    /// Collects the items of `old`, a list of this schema. Sets and atomic lists are not correlated and have none.
    pub(crate) fn of(schema: &'a Node, old: Option<&'a Value>) -> Self {
        let mut by_key = HashMap::default();
        let ListType::Map(keys) = &schema.list else { return Self { keys: &[], by_key } };
        for item in old.and_then(Value::as_array).into_iter().flatten() {
            by_key.entry(key_of(item, keys)).or_insert(item);
        }
        Self { keys, by_key }
    }

    /// Returns the stored item with the keys of `item`.
    pub(crate) fn get(&self, item: &Value) -> Option<&'a Value> {
        if self.by_key.is_empty() { None } else { self.by_key.get(&key_of(item, self.keys)).copied() }
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

    use super::{StoredItems, check};
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
        check(value, &Node::compile(&schema.to_string()), &mut causes);
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
    fn stored_items_are_found_by_their_keys_also_in_long_lists() {
        let list = |keys: &[&str], kind: &str| {
            let schema =
                json!({"type": "array", "x-kubernetes-list-type": kind, "x-kubernetes-list-map-keys": keys});
            Node::compile(&schema.to_string())
        };
        let old = json!([{"a": 1, "b": 2, "c": 3}, {"a": 1}, {"a": 1, "c": 4}]);
        let by_both = list(&["a", "b"], "map");
        let stored = StoredItems::of(&by_both, Some(&old));
        assert_eq!(stored.get(&json!({"a": 1, "b": 2})), Some(&old[0]));
        assert_eq!(stored.get(&json!({"a": 1, "d": 5})), Some(&old[1]), "the first with these keys");
        assert_eq!(stored.get(&json!({"a": 2})), None);
        let set = list(&[], "set");
        assert_eq!(StoredItems::of(&set, Some(&old)).get(&old[0]), None);
        // If each item were searched for, this would not end.
        let long: Value = (0..200_000).map(|i| json!({"a": i, "b": 0})).collect();
        let stored = StoredItems::of(&by_both, Some(&long));
        assert!(long.as_array().unwrap().iter().all(|item| stored.get(item) == Some(item)));
    }

    #[test]
    fn numbers_that_are_written_differently_are_different_and_one_item_repeats_nothing() {
        assert_eq!(repeated(&json!({"set": ["a"], "ports": [{"port": 1}, {"port": 1.0}]})), []);
    }
}
