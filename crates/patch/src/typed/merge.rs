//! Merges an applied object into the live one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::Value;

use crate::{
    fields::Element,
    schema::{List, Map, Node, Relation},
};

use super::{Form, SchemaError, error::all, form, item::element_of};

/// Merges `over` into `base`. Leaves of `over` win. Entries of maps and keyed lists are united, in an order that keeps the
/// order of both as far as possible.
pub fn merge(base: &Value, over: &Value, node: Node<'_>) -> Result<Value, SchemaError> {
    Ok(visit(Some(base), Some(over), node)?.unwrap_or(Value::Null))
}

type MergeResult = Result<Option<Value>, SchemaError>;

fn visit(base: Option<&Value>, over: Option<&Value>, node: Node<'_>) -> MergeResult {
    let atom = node.atom();
    match form(&atom, over.or(base)) {
        Form::Scalar => Ok(keep_over(base, over)),
        Form::List => atom.list.map_or(Ok(None), |list| lists(&list, base, over)),
        Form::Map => atom.map.map_or(Ok(None), |map| maps(&map, base, over)),
    }
}

fn keep_over(base: Option<&Value>, over: Option<&Value>) -> Option<Value> {
    over.or(base).cloned()
}

fn maps(map: &Map<'_>, base: Option<&Value>, over: Option<&Value>) -> MergeResult {
    let base_map = base.and_then(Value::as_object);
    let over_map = over.and_then(Value::as_object);
    if map.atomic
        || base_map.is_none_or(serde_json::Map::is_empty) && over_map.is_none_or(serde_json::Map::is_empty)
    {
        return Ok(keep_over(base, over));
    }
    let mut merged = serde_json::Map::new();
    let mut results = Vec::new();
    let mut put = |key: &String, base: Option<&Value>, over: Option<&Value>| {
        let Some(node) = map.entry(key) else { return };
        match visit(base, over, node) {
            Ok(Some(value)) => {
                merged.insert(key.clone(), value);
            }
            Ok(None) => {}
            Err(error) => results.push(Err(error.below(&Element::field(key.as_str())))),
        }
    };
    for (key, base) in base_map.into_iter().flatten() {
        put(key, Some(base), over_map.and_then(|over| over.get(key)));
    }
    for (key, over) in over_map.into_iter().flatten() {
        if base_map.is_none_or(|base| !base.contains_key(key)) {
            put(key, None, Some(over));
        }
    }
    all(results)?;
    Ok((!merged.is_empty()).then_some(Value::Object(merged)))
}

/// The elements of a list by path element, in order.
struct ElementIndex<'v> {
    order: Vec<Element>,
    /// `None` if several elements share the key.
    values: BTreeMap<Element, Option<&'v Value>>,
    /// All elements, in order.
    all: Vec<&'v Value>,
}

fn index<'v>(
    list: &List<'_>,
    value: Option<&'v Value>,
    allow_duplicates: bool,
) -> Result<ElementIndex<'v>, SchemaError> {
    let mut indexed = ElementIndex { order: Vec::new(), values: BTreeMap::new(), all: Vec::new() };
    let mut results = Vec::new();
    for (at, child) in value.and_then(Value::as_array).into_iter().flatten().enumerate() {
        let element = match element_of(list, child) {
            Ok(element) => element,
            Err(text) => {
                results.push(Err(SchemaError::new(format!("element {at}: {text}"))));
                continue;
            }
        };
        let known = indexed.values.contains_key(&element);
        if known && !allow_duplicates {
            results.push(Err(SchemaError::new(format!("duplicate entries for key {element}"))));
            continue;
        }
        indexed.values.insert(element.clone(), (!known).then_some(child));
        indexed.order.push(element);
        indexed.all.push(child);
    }
    all(results)?;
    Ok(indexed)
}

fn lists(list: &List<'_>, base: Option<&Value>, over: Option<&Value>) -> MergeResult {
    let empty = |value: Option<&Value>| value.and_then(Value::as_array).is_none_or(Vec::is_empty);
    if list.relation == Relation::Atomic || empty(base) && empty(over) {
        return Ok(keep_over(base, over));
    }
    let over = index(list, over, false)?;
    let base = index(list, base, true)?;
    let item = |element: &Element, base: Option<&Value>, over: Option<&Value>| {
        // A repeated key in the live list merges as if the list did not have it: the applied element replaces all elements
        // with the key.
        visit(base, over, list.element).map_err(|error| error.below(element))
    };
    let lookup = |element: &Element| {
        (base.values.get(element).copied().flatten(), over.values.get(element).copied().flatten())
    };

    // The elements that both lists have, in the order of `over`. An element of `base` that comes later in that order waits
    // for its turn.
    let mut shared: VecDeque<&Element> =
        over.order.iter().filter(|element| base.values.contains_key(*element)).collect();
    let mut next_shared = shared.pop_front();
    let mut done: BTreeSet<&Element> = BTreeSet::new();
    let mut merged = Vec::new();
    let (mut left, mut right) = (0, 0);
    while left < base.order.len() || right < over.order.len() {
        if let (Some(of_base), Some(of_over)) = (base.order.get(left), over.order.get(right)) {
            if of_base == of_over {
                let (base_value, over_value) = lookup(of_base);
                merged.extend(item(of_base, base_value, over_value)?);
                done.insert(of_base);
                left += 1;
                right += 1;
                next_shared = shared.pop_front();
                continue;
            }
            if over.values.contains_key(of_base) && next_shared.is_some_and(|next| next != of_base) {
                left += 1;
                continue;
            }
        }
        if let Some(of_base) = base.order.get(left) {
            if !over.values.contains_key(of_base) {
                merged.extend(item(of_base, Some(base.all[left]), None)?);
                left += 1;
                continue;
            }
            if done.contains(of_base) {
                left += 1;
            }
        }
        if let Some(of_over) = over.order.get(right) {
            let (base_value, over_value) = lookup(of_over);
            merged.extend(item(of_over, base_value, over_value)?);
            done.insert(of_over);
            right += 1;
            if next_shared == Some(of_over) {
                next_shared = shared.pop_front();
            }
        }
    }
    Ok((!merged.is_empty()).then_some(Value::Array(merged)))
}
