//! The field set of an object.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    fields::{Element, Set},
    schema::{List, Map, Node, Relation},
};

use super::{Form, form, item::element_of};

/// Returns the field set of an object that matches the schema: its leaves, and the entries of maps and keyed lists.
pub fn field_set(value: &Value, node: Node<'_>) -> Set {
    let mut set = Set::default();
    walk(value, node, &mut Vec::new(), &mut set);
    set
}

fn walk(value: &Value, node: Node<'_>, path: &mut Vec<Element>, set: &mut Set) {
    let atom = node.atom();
    match form(&atom, Some(value)) {
        Form::Scalar => set.insert(path),
        Form::List => {
            if let Some(list) = atom.list {
                walk_list(&list, value, path, set);
            }
        }
        Form::Map => {
            if let Some(map) = atom.map {
                walk_map(&map, value, path, set);
            }
        }
    }
}

fn walk_list(list: &List<'_>, value: &Value, path: &mut Vec<Element>, set: &mut Set) {
    if list.relation == Relation::Atomic {
        set.insert(path);
        return;
    }
    let Value::Array(elements) = value else { return };
    let steps: Vec<(Element, &Value)> =
        elements.iter().filter_map(|child| Some((element_of(list, child).ok()?, child))).collect();
    let mut seen = BTreeSet::new();
    let duplicates: BTreeSet<&Element> =
        steps.iter().map(|(step, _)| step).filter(|step| !seen.insert(*step)).collect();
    for (step, child) in &steps {
        path.push(step.clone());
        // Elements that share a key cannot be told apart, so only the key is owned.
        if !duplicates.contains(step) {
            walk(child, list.element, path, set);
        }
        set.insert(path);
        path.pop();
    }
}

fn walk_map(map: &Map<'_>, value: &Value, path: &mut Vec<Element>, set: &mut Set) {
    if map.atomic {
        set.insert(path);
        return;
    }
    let Value::Object(entries) = value else { return };
    for (key, child) in entries {
        let Some(node) = map.entry(key) else { continue };
        path.push(Element::field(key.as_str()));
        walk(child, node, path, set);
        let hollow = child.is_null() || child.as_object().is_some_and(serde_json::Map::is_empty);
        if hollow || map.field(key).is_none() {
            set.insert(path);
        }
        path.pop();
    }
}

/// Returns the set with every declared field added that is a prefix of one of its paths.
pub fn with_named_members(set: &Set, node: Option<Node<'_>>) -> Set {
    let atom = node.map(Node::atom);
    let map = atom.as_ref().and_then(|atom| atom.map.as_ref());
    let list = atom.as_ref().and_then(|atom| atom.list.as_ref());
    let mut result = Set::default();
    for (element, member, below) in set.elements() {
        let (declared, next) = match element {
            Element::Field(name) => (
                map.is_some_and(|map| map.field(name).is_some()) && !below.is_empty(),
                map.and_then(|map| map.entry(name)),
            ),
            Element::Key(_) => (false, list.map(|list| list.element)),
            _ => (false, None),
        };
        result.put(element.clone(), member || declared, with_named_members(below, next));
    }
    result
}
