//! Changes all leaves of another API's part at once: each value in the service must be in a child.

use std::collections::BTreeMap;

use longboat_admission::Facts;
use longboat_strategy::kinds::Resource;
use serde_json::Value;

use crate::{
    leaves::{Leaf, put},
    shape::Shape,
};

/// The paths at which two values differ, without positions in lists, with both values.
type Differences = BTreeMap<String, Vec<(Value, Value)>>;

/// Returns the leaves that reach a child when all are changed together.
pub(crate) fn reaching<'a>(
    shape: &Shape,
    resource: &Resource,
    facts: &Facts,
    root: &Value,
    leaves: &[&'a Leaf],
) -> Vec<&'a Leaf> {
    let mut crowd: Vec<&Leaf> =
        leaves.iter().copied().filter(|leaf| leaf.values.len() > 1 && !leaf.is_container_name()).collect();
    loop {
        let [one, other] = [0, 1].map(|at| {
            let mut object = shape.service.clone();
            for leaf in &crowd {
                put(&mut object, root, &leaf.steps, Some(&leaf.values[at]));
            }
            object
        });
        let admitted = [&one, &other].map(|object| shape.admit(resource, facts, object));
        let faults = match admitted {
            [Ok(before), Ok(after)] => {
                let (Some(before), Some(after)) = (before.children(), after.children()) else {
                    return Vec::new();
                };
                let (asked, made) = (differences(&one, &other), differences(&before, &after));
                crowd.retain(|leaf| arrives(leaf, &asked, &made));
                return crowd;
            }
            [Err(faults), _] | [_, Err(faults)] => faults,
        };
        // Without the leaves at fault, the others may be accepted.
        let known = crowd.len();
        let faults: Vec<String> = faults.iter().map(|field| plain(field)).collect();
        crowd.retain(|leaf| {
            !faults
                .iter()
                .any(|fault| fault.matches('.').count() > 1 && leaf.path.starts_with(fault.as_str()))
        });
        if crowd.len() == known {
            return Vec::new();
        }
    }
}

/// Removes positions from a path.
fn plain(path: &str) -> String {
    let mut parts = path.split('[');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |path, part| path + "[]" + part.split_once(']').map_or("", |(_, rest)| rest))
}

/// Whether each place at which the leaf differs has an equal difference in a child.
fn arrives(leaf: &Leaf, asked: &Differences, made: &Differences) -> bool {
    let Some(from) = leaf.foreign else { return false };
    let mut places = asked.iter().filter(|(place, _)| place.starts_with(&leaf.path)).peekable();
    places.peek().is_some()
        && places.all(|(place, pairs)| {
            let end = &place[from..];
            let found = || made.iter().filter(|(place, _)| place.ends_with(end)).flat_map(|(_, pairs)| pairs);
            pairs
                .iter()
                .all(|wanted| found().any(|pair| same(&wanted.0, &pair.0) && same(&wanted.1, &pair.1)))
        })
}

/// Whether the value was found. A value that means nothing may have been left out.
fn same(wanted: &Value, found: &Value) -> bool {
    wanted == found || (found.is_null() && (*wanted == Value::Bool(false)))
}

fn differences(one: &Value, other: &Value) -> Differences {
    let mut found = Differences::new();
    visit(one, other, String::new(), &mut found);
    found
}

fn visit(one: &Value, other: &Value, place: String, found: &mut Differences) {
    match (one, other) {
        _ if one == other => {}
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                let place = if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
                visit(&one[key], &other[key], place, found);
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            for at in 0..a.len().max(b.len()) {
                let item = |list: &[Value]| list.get(at).cloned().unwrap_or_default();
                visit(&item(a), &item(b), format!("{place}[]"), found);
            }
        }
        _ => found.entry(place).or_default().push((one.clone(), other.clone())),
    }
}
