//! Taking fields out of an object.

use serde_json::Value;

use crate::{
    fields::{Element, Set},
    schema::{Node, Relation},
};

use super::{Form, form, item::element_of};

/// The object without the fields of a set. What is emptied by it becomes null; so does an atomic list or map that the
/// set reaches into.
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
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
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
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        _ => Value::Null,
    }
}

/// What is left of a child; none when it is taken itself.
fn rest(child: &Value, taken: &Set, element: &Element, node: Option<Node<'_>>) -> Option<Value> {
    if taken.has_element(element) {
        return None;
    }
    Some(match (taken.below(element), node) {
        (Some(below), Some(node)) => remove(child, below, node),
        _ => child.clone(),
    })
}
