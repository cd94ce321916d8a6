//! Applies a patch.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value};

use crate::gofmt;

use super::{DELETE_FROM, DIRECTIVE, ELEMENT_ORDER, Error, MergeType, RETAIN_KEYS, order};

type Object = Map<String, Value>;

/// Merges `patch` into `base`. Both are objects of the struct at `place`.
pub(super) fn objects(mut base: Object, mut patch: Object, place: MergeType) -> Result<Object, Error> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Object::new()),
            _ => Err(Error::unknown_directive(directive, &patch)),
        };
    }
    retain_keys(&mut base, &mut patch)?;
    element_orders(&mut base, &mut patch, place)?;

    for (key, value) in patch {
        let (key, deletes) = if key.starts_with(DELETE_FROM) {
            (directive_target(&key, DELETE_FROM).ok_or(Error::BadPrimitiveList)?.to_owned(), true)
        } else {
            (key, false)
        };
        if value.is_null() {
            base.remove(&key);
            continue;
        }
        let Some(current) = base.get_mut(&key) else {
            if !deletes && let Some(value) = literal(value) {
                base.insert(key, value);
            }
            continue;
        };
        match (current, value) {
            (Value::Object(current), Value::Object(value)) => {
                let (inner, strategy) = place.object(&key)?;
                *current =
                    if strategy.replace { value } else { objects(std::mem::take(current), value, inner)? };
            }
            (Value::Array(current), Value::Array(value)) => {
                let (inner, strategy) = place.list(&key)?;
                *current = if strategy.merge || deletes {
                    lists(std::mem::take(current), value, inner, strategy.key, deletes)?
                } else {
                    value
                };
            }
            (_, _) if deletes => {}
            (current, value) => match literal(value) {
                Some(value) => *current = value,
                None => {
                    base.remove(&key);
                }
            },
        }
    }
    Ok(base)
}

/// Returns a value of the patch that the base has nothing to merge with, without nulls and without elements with directives.
fn literal(mut value: Value) -> Option<Value> {
    discard_nulls(&mut value);
    without_directives(value)
}

/// Discards the nulls of objects, which typed objects do not have.
pub fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, inner| !inner.is_null());
            map.values_mut().for_each(discard_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => Some(Value::Object(
            map.into_iter().filter_map(|(key, inner)| Some((key, without_directives(inner)?))).collect(),
        )),
        Value::Array(list) => Some(Value::Array(list.into_iter().filter_map(without_directives).collect())),
        other => Some(other),
    }
}

/// Returns the field to which a directive refers, such as `finalizers` for `$setElementOrder/finalizers`.
fn directive_target<'a>(key: &'a str, prefix: &str) -> Option<&'a str> {
    key.split_once('/').filter(|(head, _)| *head == prefix).map(|(_, target)| target)
}

/// Applies `$retainKeys`: removes every key of the base that the directive does not name. The directive must name all keys
/// that the patch sets.
fn retain_keys(base: &mut Object, patch: &mut Object) -> Result<(), Error> {
    let Some(keep) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(keep) = keep else { return Err(Error::BadRetainKeys) };
    let keep: HashSet<&str> = keep.iter().filter_map(Value::as_str).collect();
    let kept = |key: &str| keep.contains(key);
    for (key, value) in patch.iter() {
        let is_directive = key.starts_with(DELETE_FROM) || key.starts_with(ELEMENT_ORDER);
        if !value.is_null() && !is_directive && !kept(key) {
            return Err(Error::BadRetainKeys);
        }
    }
    base.retain(|key, _| kept(key));
    Ok(())
}

/// Applies `$setElementOrder/NAME`: merges the list `NAME`, and sorts it in that order.
fn element_orders(base: &mut Object, patch: &mut Object, place: MergeType) -> Result<(), Error> {
    let keys: Vec<String> = patch.keys().filter(|key| key.starts_with(ELEMENT_ORDER)).cloned().collect();
    for key in keys {
        let wanted = match patch.remove(&key) {
            Some(Value::Array(wanted)) => wanted,
            Some(other) => return Err(Error::wrong_type("[]interface {}", &other)),
            None => continue,
        };
        let target = directive_target(&key, ELEMENT_ORDER).ok_or(Error::BadElementOrder)?;
        let of_base = list_in(base, target)?;
        let of_patch = list_in(patch, target)?;
        let (inner, strategy) = place.list(target)?;
        check_order(of_patch.as_deref().unwrap_or_default(), &wanted, strategy.key)?;
        let mut server = of_base.clone().unwrap_or_default();
        let elements = of_patch.clone().unwrap_or_default();
        let merged = match (of_base, of_patch) {
            (None, None) => continue,
            (Some(of_base), None) => of_base,
            (None, Some(of_patch)) => of_patch.into_iter().filter_map(without_directives).collect(),
            (Some(of_base), Some(of_patch)) if strategy.merge => {
                lists(of_base, of_patch, inner, strategy.key, false)?
            }
            (Some(_), Some(of_patch)) => of_patch,
        };
        if server.is_empty() && elements.is_empty() {
            return Err(Error::NoElements);
        }
        let maps = holds_objects(&[&server, &elements])?;
        if maps && strategy.merge {
            server = as_upstream_sorts(server, &elements, strategy.key);
        }
        let sorted = sort_merged(merged, &wanted, &server, strategy.key, maps)?;
        base.insert(target.to_owned(), Value::Array(sorted));
        patch.remove(target);
    }
    Ok(())
}

/// Returns the server's list in the state in which upstream sorts by it: upstream has already removed the deleted elements
/// from it, and new elements have taken their places.
pub(super) fn as_upstream_sorts(mut server: Vec<Value>, patch: &[Value], key: &str) -> Vec<Value> {
    let places = server.len();
    let (directives, elements): (Vec<&Value>, Vec<&Value>) =
        patch.iter().partition(|element| element.get(DIRECTIVE).is_some());
    let deleted: HashSet<&Value> = directives
        .iter()
        .filter(|directive| order::is_deletion(directive))
        .map(|directive| order::identity(directive, key))
        .collect();
    server.retain(|element| !deleted.contains(order::identity(element, key)));
    if directives.iter().all(|directive| directive[DIRECTIVE] != "replace") {
        let mut known: HashSet<&Value> = server.iter().map(|element| order::identity(element, key)).collect();
        let new = elements.into_iter().filter(|element| known.insert(order::identity(element, key)));
        let new: Vec<Value> = new.take(places - server.len()).cloned().collect();
        server.extend(new);
    }
    server
}

fn list_in(object: &Object, key: &str) -> Result<Option<Vec<Value>>, Error> {
    match object.get(key) {
        None => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list.clone())),
        Some(other) => Err(Error::wrong_type("[]interface {}", other)),
    }
}

/// Checks that the elements of the patch are in the order of the directive.
fn check_order(patch: &[Value], wanted: &[Value], key: &str) -> Result<(), Error> {
    if patch.is_empty() || wanted.is_empty() {
        return Ok(());
    }
    let mut left: Vec<&Value> = Vec::new();
    for element in patch {
        if key.is_empty() {
            left.push(element);
            continue;
        }
        if !element.is_object() {
            return Err(Error::wrong_type("map[string]interface {}", element));
        }
        if !order::is_deletion(element) {
            left.push(element);
        }
    }
    // Elements with another directive are skipped, but not after the last element that the order names: upstream reports a
    // wrong order for such an element.
    let (mut at, mut named) = (0, 0);
    while at < left.len() && named < wanted.len() {
        if left[at].as_object().is_some_and(|map| map.contains_key(DIRECTIVE)) {
            at += 1;
            continue;
        }
        if same_key(left[at], &wanted[named], key)? {
            at += 1;
        }
        named += 1;
    }
    if at < left.len() && named >= wanted.len() {
        return Err(Error::OrderMismatch {
            patch: gofmt::plain_list(patch),
            order: gofmt::plain_list(wanted),
        });
    }
    Ok(())
}

fn same_key(left: &Value, right: &Value, key: &str) -> Result<bool, Error> {
    if key.is_empty() {
        return Ok(left == right);
    }
    Ok(key_of(left, key)? == key_of(right, key)?)
}

fn key_of<'a>(element: &'a Value, key: &str) -> Result<&'a Value, Error> {
    let map = element.as_object().ok_or_else(|| Error::wrong_type("map[string]interface {}", element))?;
    map.get(key).ok_or_else(|| Error::no_merge_key(map, key))
}

/// Merges two lists. If `key` is empty, they are lists of scalars.
fn lists(
    base: Vec<Value>,
    patch: Vec<Value>,
    inner: MergeType,
    key: &str,
    deletes: bool,
) -> Result<Vec<Value>, Error> {
    if base.is_empty() && patch.is_empty() {
        return Ok(base);
    }
    if !holds_objects(&[&base, &patch])? {
        if deletes {
            let removed: HashSet<&Value> = patch.iter().collect();
            return Ok(base.into_iter().filter(|element| !removed.contains(element)).collect());
        }
        let server = base.clone();
        let mut both = base;
        both.extend(patch.iter().cloned());
        deduplicate(&mut both);
        return sort_merged(both, &patch, &server, key, false);
    }
    if key.is_empty() {
        return Err(Error::NoKeyForList(inner.kind_name()));
    }
    let (server, patch) = list_directives(base, patch, key)?;
    let merged = elements(server.clone(), &patch, inner, key)?;
    sort_merged(merged, &patch, &server, key, true)
}

/// Sorts a merged list: elements named by the patch or the directive are in its order, and elements that only the server has
/// are in between.
fn sort_merged(
    merged: Vec<Value>,
    named: &[Value],
    server: &[Value],
    key: &str,
    maps: bool,
) -> Result<Vec<Value>, Error> {
    if !key.is_empty() {
        merged.iter().try_for_each(|element| key_of(element, key).map(drop))?;
    }
    let positions = order::Positions::of(named, key);
    let (of_patch, server_only) = merged.into_iter().partition(|element| positions.find(element).is_some());
    let of_patch = order::sort_as(of_patch, named, key, maps)?;
    let server_only = order::sort_as(server_only, server, key, maps)?;
    Ok(order::interleave(server_only, of_patch, server, key))
}

/// Executes `$patch` in elements. Returns the elements of base and patch that remain to be merged.
fn list_directives(
    mut base: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let mut rest = Vec::new();
    let mut deleted = HashSet::new();
    let mut replace = false;
    for element in patch {
        let Some(map) = element.as_object() else {
            return Err(Error::wrong_type("map[string]interface {}", &element));
        };
        match map.get(DIRECTIVE) {
            None => rest.push(element),
            Some(Value::String(directive)) if directive == "delete" => {
                let wanted = map.get(key).ok_or_else(|| Error::no_merge_key(map, key))?;
                deleted.insert(wanted.clone());
            }
            Some(Value::String(directive)) if directive == "replace" => replace = true,
            Some(Value::String(directive)) if directive == "merge" => return Err(Error::MergeInList),
            Some(other) => return Err(Error::unknown_directive(other, map)),
        }
    }
    base.retain(|other| other.get(key).is_none_or(|key| !deleted.contains(key)));
    Ok(if replace { (rest, Vec::new()) } else { (base, rest) })
}

/// Merges each element of the patch into the first element of the base with its key, or appends it.
pub(super) fn elements(
    mut base: Vec<Value>,
    patch: &[Value],
    inner: MergeType,
    key: &str,
) -> Result<Vec<Value>, Error> {
    let mut first: HashMap<Value, usize> = HashMap::with_capacity(base.len());
    for (at, element) in base.iter().enumerate() {
        if let Some(key) = element.get(key) {
            first.entry(key.clone()).or_insert(at);
        }
    }
    for element in patch {
        let wanted = key_of(element, key)?;
        if let (Some(Value::Object(current)), Value::Object(map)) =
            (first.get(wanted).map(|at| &mut base[*at]), element)
        {
            *current = objects(std::mem::take(current), map.clone(), inner)?;
            // A null in the patch removes the key, so that no other element is merged here.
            if current.get(key) != Some(wanted) {
                first.remove(wanted);
            }
        } else {
            first.entry(wanted.clone()).or_insert(base.len());
            base.push(element.clone());
        }
    }
    Ok(base)
}

/// Whether the elements of the lists are objects. All elements must have the same JSON type, and must not be lists.
pub(super) fn holds_objects(lists: &[&Vec<Value>]) -> Result<bool, Error> {
    let mut kind = None;
    for element in lists.iter().flat_map(|list| list.iter()) {
        let name = gofmt::type_name(element);
        match kind {
            None if element.is_array() => return Err(Error::ListOfLists),
            None => kind = Some(name),
            Some(first) if first == name => {}
            Some(_) => {
                let words: Vec<String> = lists.iter().map(|list| gofmt::plain_list(list)).collect();
                return Err(Error::MixedList(format!("[{}]", words.join(" "))));
            }
        }
    }
    Ok(kind == Some("map[string]interface {}"))
}

/// Removes repeated scalars as upstream does: the last element takes the place of a repeated one.
pub(super) fn deduplicate(list: &mut Vec<Value>) {
    let mut places: HashMap<Value, BTreeSet<usize>> = HashMap::with_capacity(list.len());
    for (at, element) in list.iter().enumerate() {
        places.entry(element.clone()).or_default().insert(at);
    }
    let mut at = 0;
    while at < list.len() {
        let repeated = |places: &HashMap<Value, BTreeSet<usize>>, element: &Value| {
            places.get(element).and_then(|places| places.range(at + 1..).next().copied())
        };
        while let Some(other) = repeated(&places, &list[at]) {
            let end = list.len() - 1;
            if let Some(of_repeated) = places.get_mut(&list[at]) {
                of_repeated.remove(&other);
            }
            if other < end
                && let Some(of_last) = places.get_mut(&list[end])
            {
                of_last.remove(&end);
                of_last.insert(other);
            }
            list.swap_remove(other);
        }
        at += 1;
    }
}
