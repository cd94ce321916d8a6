//! Removes fields from an object.

use serde_json::Value;

use crate::{
    fields::{Element, Set},
    schema::{Node, Relation},
};

use super::{Form, form, item::element_of};

/// Returns the object without the fields of a set. A list or map that loses everything becomes null if its entries were
/// removed themselves, and stays empty if only something below them was removed. An atomic value stays empty too if the set
/// contains paths below it.
///
/// The last rule is that of Kubernetes 1.35. Before, `gateway: {}` became null when a manager gave up the last field that it
/// owned in it, so the requested Gateway disappeared.
pub fn remove(value: &Value, taken: &Set, node: Node<'_>) -> Value {
    let atom = node.atom();
    match (form(&atom, Some(value)), value) {
        (Form::Scalar, _) => value.clone(),
        (Form::List, Value::Array(elements)) => {
            let Some(list) = atom.list.filter(|list| list.relation != Relation::Atomic) else {
                return Value::Null;
            };
            let kept: Vec<Value> = elements
                .iter()
                .filter_map(|child| match element_of(&list, child) {
                    Ok(element) => rest(child, taken, &element, Some(list.element)),
                    Err(_) => Some(child.clone()),
                })
                .collect();
            let reached = elements
                .iter()
                .filter_map(|child| element_of(&list, child).ok())
                .any(|e| removes_inside(taken, &e));
            if kept.is_empty() && !reached { Value::Null } else { Value::Array(kept) }
        }
        (Form::Map, Value::Object(entries)) => {
            let Some(map) = atom.map.filter(|map| !map.atomic) else { return Value::Null };
            let kept: serde_json::Map<String, Value> = entries
                .iter()
                .filter_map(|(key, child)| {
                    let child = rest(child, taken, &Element::field(key.as_str()), map.entry(key))?;
                    Some((key.clone(), child))
                })
                .collect();
            let reached = entries.keys().any(|key| removes_inside(taken, &Element::field(key.as_str())));
            if kept.is_empty() && !reached { Value::Null } else { Value::Object(kept) }
        }
        _ => Value::Null,
    }
}

/// Returns what is left of a child, or `None` if the child itself is removed.
fn rest(child: &Value, taken: &Set, element: &Element, node: Option<Node<'_>>) -> Option<Value> {
    if taken.has_element(element) {
        return None;
    }
    Some(match (taken.below(element), node) {
        (Some(below), Some(node)) => match (remove(child, below, node), child) {
            (Value::Null, Value::Object(_)) => Value::Object(serde_json::Map::new()),
            (Value::Null, Value::Array(_)) => Value::Array(Vec::new()),
            (left, _) => left,
        },
        _ => child.clone(),
    })
}

/// Whether a set removes something below an element, and not the element itself.
fn removes_inside(taken: &Set, element: &Element) -> bool {
    !taken.has_element(element) && taken.below(element).is_some_and(|below| !below.is_empty())
}
