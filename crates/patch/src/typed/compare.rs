//! Finds the differences between two objects.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    fields::{Element, Set},
    schema::{List, Map, Node, Relation},
};

use super::{Form, form, item::element_of, same_view};

/// The differences between two objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Fields that only the old object has.
    pub removed: Set,
    /// Fields that both have, with different values.
    pub modified: Set,
    /// Fields that only the new object has.
    pub added: Set,
}

impl Comparison {
    /// Returns the differences without the fields of a set and all fields below them.
    #[must_use]
    pub fn without(self, ignored: &Set) -> Self {
        Self {
            removed: self.removed.recursive_difference(ignored),
            modified: self.modified.recursive_difference(ignored),
            added: self.added.recursive_difference(ignored),
        }
    }
}

/// Compares two objects that fit the schema.
pub fn compare(old: &Value, new: &Value, node: Node<'_>) -> Comparison {
    let mut walker = Walker { path: Vec::new(), found: Comparison::default() };
    walker.visit(Some(old), Some(new), node);
    walker.found
}

struct Walker {
    path: Vec<Element>,
    found: Comparison,
}

impl Walker {
    fn visit(&mut self, old: Option<&Value>, new: Option<&Value>, node: Node<'_>) {
        let atom = node.atom();
        let mut leaf = false;
        if new.is_none() || old.is_some() && !same_view(&atom, old, new) {
            leaf = self.handle(form(&atom, old), old, new, node);
        }
        if new.is_some() {
            leaf = self.handle(form(&atom, new), old, new, node);
        }
        if !leaf {
            match (old, new) {
                (None, Some(_)) => self.found.added.insert(&self.path),
                (Some(_), None) => self.found.removed.insert(&self.path),
                _ => {}
            }
        }
    }

    /// Compares one form of the values. Returns whether the place was compared as one value.
    fn handle(&mut self, form: Form, old: Option<&Value>, new: Option<&Value>, node: Node<'_>) -> bool {
        let atom = node.atom();
        match form {
            Form::Scalar => {
                self.leaf(old, new);
                true
            }
            Form::List => atom.list.is_some_and(|list| self.lists(&list, old, new)),
            Form::Map => atom.map.is_some_and(|map| self.maps(&map, old, new)),
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            (Some(old), Some(new)) => {
                if !same(old, new) {
                    self.found.modified.insert(&self.path);
                }
            }
        }
    }

    fn step(&mut self, element: Element, old: Option<&Value>, new: Option<&Value>, node: Node<'_>) {
        self.path.push(element);
        self.visit(old, new, node);
        self.path.pop();
    }

    fn maps(&mut self, map: &Map<'_>, old: Option<&Value>, new: Option<&Value>) -> bool {
        let old_map = old.and_then(Value::as_object);
        let new_map = new.and_then(Value::as_object);
        if map.atomic
            || old_map.is_none_or(serde_json::Map::is_empty) && new_map.is_none_or(serde_json::Map::is_empty)
        {
            self.leaf(old, new);
            return true;
        }
        for (key, old) in old_map.into_iter().flatten() {
            if let Some(node) = map.entry(key) {
                let new = new_map.and_then(|new| new.get(key));
                self.step(Element::field(key.as_str()), Some(old), new, node);
            }
        }
        for (key, new) in new_map.into_iter().flatten() {
            if old_map.is_none_or(|old| !old.contains_key(key))
                && let Some(node) = map.entry(key)
            {
                self.step(Element::field(key.as_str()), None, Some(new), node);
            }
        }
        false
    }

    fn lists(&mut self, list: &List<'_>, old: Option<&Value>, new: Option<&Value>) -> bool {
        let old_list = old.and_then(Value::as_array);
        let new_list = new.and_then(Value::as_array);
        let empty = |list: Option<&Vec<Value>>| list.is_none_or(Vec::is_empty);
        if list.relation == Relation::Atomic || empty(old_list) && empty(new_list) {
            self.leaf(old, new);
            return true;
        }
        let mut pairs: BTreeMap<Element, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for child in old_list.into_iter().flatten() {
            if let Ok(element) = element_of(list, child) {
                pairs.entry(element).or_default().0.push(child);
            }
        }
        for child in new_list.into_iter().flatten() {
            if let Ok(element) = element_of(list, child) {
                pairs.entry(element).or_default().1.push(child);
            }
        }
        for (element, (old, new)) in pairs {
            self.elements(list, element, &old, &new);
        }
        false
    }

    /// Compares the elements with one key. Usually each side has one, but stored objects may repeat keys.
    fn elements(&mut self, list: &List<'_>, element: Element, old: &[&Value], new: &[&Value]) {
        match (old, new) {
            ([] | [_], [] | [_]) => {
                self.step(element, old.first().copied(), new.first().copied(), list.element);
            }
            ([_, _, ..], [_, _, ..]) => {
                if old.len() != new.len() || !old.iter().zip(new).all(|(old, new)| same(old, new)) {
                    self.path.push(element);
                    self.found.modified.insert(&self.path);
                    self.path.pop();
                }
            }
            ([_, _, ..], _) => {
                if let Some(new) = new.first() {
                    self.step(element.clone(), None, Some(new), list.element);
                }
                self.path.push(element);
                self.found.removed.insert(&self.path);
                self.path.pop();
            }
            (_, _) => {
                if let Some(old) = old.first() {
                    self.step(element.clone(), Some(old), None, list.element);
                }
                self.path.push(element);
                self.found.added.insert(&self.path);
                self.path.pop();
            }
        }
    }
}

/// Whether two values are equal. 2 equals 2.0.
pub(super) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            left == right || (left.is_f64() || right.is_f64()) && left.as_f64() == right.as_f64()
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, left)| right.get(key).is_some_and(|right| same(left, right)))
        }
        _ => left == right,
    }
}
