//! Computes a patch.

use std::cmp::Ordering;

use serde_json::{Map, Value, json};

use crate::gofmt;

use super::{
    DELETE_FROM, DIRECTIVE, ELEMENT_ORDER, Error, MergeType, RETAIN_KEYS,
    merge::{deduplicate, holds_objects},
    order,
};

type Object = Map<String, Value>;

/// Returns the patch from one object to the other. It is empty if they are equal.
pub(super) fn objects(
    original: &Object,
    modified: &Object,
    place: MergeType,
    retain: bool,
) -> Result<Object, Error> {
    let mut patch = Object::new();
    for (key, value) in modified {
        let Some(old) = original.get(key) else {
            patch.insert(key.clone(), value.clone());
            continue;
        };
        if key == DIRECTIVE {
            if !old.is_string() || !value.is_string() {
                return Err(Error::BadDirectiveValue);
            }
            if old != value {
                patch.insert(key.clone(), value.clone());
            }
            continue;
        }
        match (old, value) {
            (Value::Object(old), Value::Object(new)) => {
                let (inner, strategy) = match place.object(key) {
                    Ok(found) => found,
                    Err(_) if old == new => continue,
                    Err(error) => return Err(error),
                };
                if strategy.replace {
                    if old != new {
                        patch.insert(key.clone(), value.clone());
                    }
                    continue;
                }
                let inner = objects(old, new, inner, strategy.retain_keys)?;
                if !inner.is_empty() {
                    patch.insert(key.clone(), Value::Object(inner));
                }
            }
            (Value::Array(old), Value::Array(new)) => field_lists(key, old, new, place, &mut patch)?,
            (old, new) => {
                if old != new {
                    patch.insert(key.clone(), new.clone());
                }
            }
        }
    }
    for key in original.keys() {
        if !modified.contains_key(key) {
            patch.insert(key.clone(), Value::Null);
        }
    }
    if retain
        && (!patch.is_empty()
            || original.iter().any(|(key, old)| !old.is_null() && !modified.contains_key(key)))
    {
        let mut keys: Vec<&String> =
            modified.iter().filter(|(_, value)| !value.is_null()).map(|(key, _)| key).collect();
        if !keys.is_empty() {
            keys.sort();
            patch.insert(RETAIN_KEYS.to_owned(), json!(keys));
        }
    }
    Ok(patch)
}

fn field_lists(
    key: &str,
    old: &Vec<Value>,
    new: &Vec<Value>,
    place: MergeType,
    patch: &mut Object,
) -> Result<(), Error> {
    let (inner, strategy) = match place.list(key) {
        Ok(found) => found,
        Err(_) if old == new => return Ok(()),
        Err(error) => return Err(error),
    };
    if !strategy.merge {
        if old != new {
            patch.insert(key.to_owned(), Value::Array(new.clone()));
        }
        return Ok(());
    }
    let Lists { set, delete, order } = lists(old, new, inner, strategy.key, strategy.retain_keys)?;
    for (name, list) in [
        (key.to_owned(), set),
        (format!("{DELETE_FROM}/{key}"), delete),
        (format!("{ELEMENT_ORDER}/{key}"), order),
    ] {
        if !list.is_empty() {
            patch.insert(name, Value::Array(list));
        }
    }
    Ok(())
}

#[derive(Default)]
struct Lists {
    set: Vec<Value>,
    delete: Vec<Value>,
    order: Vec<Value>,
}

fn lists(
    old: &Vec<Value>,
    new: &Vec<Value>,
    inner: MergeType,
    key: &str,
    retain: bool,
) -> Result<Lists, Error> {
    if old.is_empty() {
        return Ok(Lists { set: new.clone(), ..Lists::default() });
    }
    if !holds_objects(&[old, new])? {
        let (add, delete) = scalars(old, new);
        let set = order::sort_as(add, new, key, false)?;
        let order = if old == new { Vec::new() } else { new.clone() };
        return Ok(Lists { set, delete, order });
    }
    if key.is_empty() {
        return Err(Error::NoKeyForList(inner.kind_name()));
    }
    let (set, deletions) = keyed(old, new, inner, key, retain)?;
    let mut set = order::sort_as(set, new, key, true)?;
    set.extend(deletions);
    let same_order =
        old.len() == new.len() && old.iter().zip(new).all(|(old, new)| old.get(key) == new.get(key));
    let order = if set.is_empty() && same_order {
        Vec::new()
    } else {
        new.iter().map(|element| json!({ key: element.get(key) })).collect()
    };
    Ok(Lists { set, delete: Vec::new(), order })
}

/// Returns the scalars that were added, with repetitions, and those that were removed.
fn scalars(old: &[Value], new: &[Value]) -> (Vec<Value>, Vec<Value>) {
    let by_text = |list: &[Value]| {
        let mut sorted: Vec<(String, Value)> =
            list.iter().map(|value| (gofmt::plain(value), value.clone())).collect();
        sorted.sort_by(|left, right| left.0.cmp(&right.0));
        sorted
    };
    let (mut add, mut delete) = (Vec::new(), Vec::new());
    walk(by_text(old), by_text(new), |step| {
        match step {
            Step::Both(..) => {}
            Step::Old(value) => delete.push(value),
            Step::New(value) => add.push(value),
        }
        Ok(())
    })
    .unwrap_or_default();
    deduplicate(&mut delete);
    (add, delete)
}

/// Returns patches for elements with a key, and the deletions.
fn keyed(
    old: &[Value],
    new: &[Value],
    inner: MergeType,
    key: &str,
    retain: bool,
) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let by_key = |list: &[Value]| -> Result<Vec<(String, Value)>, Error> {
        order::check_keys(key, list)?;
        let mut sorted: Vec<(String, Value)> =
            list.iter().map(|value| (gofmt::plain(&value[key]), value.clone())).collect();
        sorted.sort_by(|left, right| left.0.cmp(&right.0));
        Ok(sorted)
    };
    let (mut set, mut deletions) = (Vec::new(), Vec::new());
    walk(by_key(old)?, by_key(new)?, |step| {
        match step {
            Step::Both(Value::Object(old), Value::Object(new)) => {
                let mut patch = objects(&old, &new, inner, retain)?;
                if !patch.is_empty() {
                    patch.insert(key.to_owned(), new[key].clone());
                    set.push(Value::Object(patch));
                }
            }
            Step::Both(..) => {}
            Step::Old(old) => deletions.push(json!({ key: old[key], DIRECTIVE: "delete" })),
            Step::New(new) => set.push(new),
        }
        Ok(())
    })?;
    Ok((set, deletions))
}

enum Step {
    Both(Value, Value),
    Old(Value),
    New(Value),
}

/// Walks two sorted lists in parallel.
fn walk(
    old: Vec<(String, Value)>,
    new: Vec<(String, Value)>,
    mut visit: impl FnMut(Step) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut old = old.into_iter().peekable();
    let mut new = new.into_iter().peekable();
    loop {
        let side = match (old.peek(), new.peek()) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((left, _)), Some((right, _))) => left.cmp(right),
        };
        let step = match side {
            Ordering::Less => old.next().map(|(_, old)| Step::Old(old)),
            Ordering::Greater => new.next().map(|(_, new)| Step::New(new)),
            Ordering::Equal => old.next().zip(new.next()).map(|((_, old), (_, new))| Step::Both(old, new)),
        };
        if let Some(step) = step {
            visit(step)?;
        }
    }
}
