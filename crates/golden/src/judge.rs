//! Compares Longboat's objects with the recorded ones, leaf by leaf.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
};

use serde_json::{Map, Value};

use crate::compatibility;

/// A leaf that differs.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The stage, the object and the field.
    pub place: String,
    /// The recorded value.
    pub recorded: String,
    /// Longboat's value.
    pub ours: String,
}

/// An intended difference.
#[derive(Debug)]
struct IntendedDifference {
    /// The line in the list.
    line: &'static str,
    used: Cell<bool>,
    case: &'static str,
    place: &'static str,
    recorded: &'static str,
    /// An id of `compatibility.yaml`.
    reason: &'static str,
}

/// The list of intended differences.
#[derive(Debug)]
pub struct IntendedDifferences(Vec<IntendedDifference>);

/// Intended differences of planning, which the controller therefore has, too.
const PLANNED: &str = include_str!("planned.txt");
/// Intended differences that only the controller with an API server has: events, refusals, deletion.
const SERVED: &str = include_str!("served.txt");
/// Intended differences of the simulator from vLLM.
const SIMULATOR: &str = include_str!("vllm/simulator.txt");
/// Intended differences of the engine from vLLM.
const ENGINE: &str = include_str!("vllm/engine.txt");

// === impl IntendedDifferences ===

impl IntendedDifferences {
    /// Returns the intended differences of planning: `planned.txt`, with lines of the form `case | place | part of the
    /// recorded value | id`. `*` stands for any text.
    pub fn of_planning() -> Self {
        Self::read(&[PLANNED])
    }

    /// Returns the intended differences of the controller: `planned.txt` and `served.txt`.
    pub fn of_the_controller() -> Self {
        Self::read(&[PLANNED, SERVED])
    }

    /// Returns the intended differences of the simulator from vLLM: requests are the cases, and `RECORDED -> OURS` has parts of
    /// both values.
    pub fn of_the_simulator() -> Self {
        Self::read(&[SIMULATOR])
    }

    /// Returns the intended differences of the engine from vLLM. It has the API of the simulator, and may differ in the same way.
    pub fn of_the_engine() -> Self {
        let (mut own, simulator) = (Self::read(&[ENGINE]), Self::of_the_simulator());
        // The test of the simulator looks for unused lines among these.
        simulator.0.iter().for_each(|meant| meant.used.set(true));
        own.0.extend(simulator.0);
        own
    }

    fn read(files: &[&'static str]) -> Self {
        let lines = files.iter().flat_map(|file| file.lines());
        Self(
            lines
                .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
                .map(|line| {
                    let parts: Vec<&str> = line.split(" | ").map(str::trim).collect();
                    let [case, place, recorded, reason] = parts[..] else { panic!("four parts: {line}") };
                    compatibility::deviation(reason);
                    IntendedDifference { line, used: Cell::new(false), case, place, recorded, reason }
                })
                .collect(),
        )
    }

    /// Returns the id of the entry that explains a difference, if it is intended.
    pub fn reason(&self, case: &str, difference: &Difference) -> Option<&'static str> {
        let meant = self.0.iter().find(|meant| {
            fits(meant.case, case)
                && fits_place(meant.place, &difference.place)
                && meant.fits_values(difference)
        })?;
        meant.used.set(true);
        Some(meant.reason)
    }

    /// Returns the lines that match no difference.
    pub fn unused(&self) -> Vec<&'static str> {
        self.0.iter().filter(|meant| !meant.used.get()).map(|meant| meant.line).collect()
    }
}

// === impl IntendedDifference ===

impl IntendedDifference {
    fn fits_values(&self, difference: &Difference) -> bool {
        let (recorded, ours) = self.recorded.split_once(" -> ").unwrap_or((self.recorded, "*"));
        (recorded == "*" || difference.recorded.contains(recorded))
            && (ours == "*" || difference.ours.contains(ours))
    }
}

/// Whether a text matches a pattern, in which `*` stands for any text.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut left) = text.strip_prefix(start) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let end = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(end)
}

/// Whether a place matches a pattern. A pattern that starts with `*` matches any place that contains the rest of it.
fn fits_place(pattern: &str, place: &str) -> bool {
    fits(pattern, place)
        || pattern.len() > 1 && pattern.starts_with('*') && fits(&format!("{pattern}*"), place)
}

/// Returns an object in the form of the recordings: without values that differ from run to run.
pub fn normal_child(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in
            ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink"]
        {
            metadata.remove(field);
        }
        for owner in metadata.get_mut("ownerReferences").and_then(Value::as_array_mut).into_iter().flatten() {
            owner["uid"] = "<uid>".into();
        }
        if let Some(time) =
            metadata.get_mut("annotations").and_then(|all| all.get_mut("certificates.kserve.io/expiration"))
        {
            *time = "<time>".into();
        }
    }
    if object["kind"] == "Secret" {
        for value in object["data"].as_object_mut().into_iter().flat_map(Map::values_mut) {
            *value = "<data>".into();
        }
    }
    if object["kind"] == "Service" {
        let spec = object["spec"].as_object_mut().unwrap();
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    object
}

/// Returns a status without times. Its addresses are in the order of their URLs, as the reference writes them: ours begin with the
/// one that clients should use (`compatibility.yaml#first-address`).
pub fn normal_status(mut status: Value) -> Value {
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        condition.as_object_mut().unwrap().remove("lastTransitionTime");
    }
    if let Some(addresses) = status["addresses"].as_array_mut() {
        addresses.sort_by(|a, b| a["url"].as_str().cmp(&b["url"].as_str()));
    }
    // Conditions are keyed by type instead of position, so that an additional condition is a single difference.
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let by_type: Map<String, Value> = conditions
        .into_iter()
        .map(|condition| (condition["type"].as_str().unwrap_or_default().to_owned(), condition))
        .collect();
    status["conditions"] = Value::Object(by_type);
    status
}

/// Collects every leaf in which two trees differ.
pub fn differences(place: &str, recorded: &Value, ours: &Value, found: &mut Vec<Difference>) {
    match (recorded, ours) {
        (Value::Object(left), Value::Object(right)) => {
            for key in left.keys().chain(right.keys()).collect::<BTreeSet<_>>() {
                let value = |map: &Map<String, Value>| map.get(key).cloned().unwrap_or(Value::Null);
                differences(&format!("{place}.{key}"), &value(left), &value(right), found);
            }
        }
        (Value::Array(left), Value::Array(right)) => {
            for position in 0..left.len().max(right.len()) {
                let value = |list: &[Value]| list.get(position).cloned().unwrap_or(Value::Null);
                differences(&format!("{place}[{position}]"), &value(left), &value(right), found);
            }
        }
        _ if recorded == ours || (empty(recorded) && empty(ours)) => {}
        _ if recorded.as_f64().is_some() && recorded.as_f64() == ours.as_f64() => {}
        _ => found.push(Difference { place: place.into(), recorded: show(recorded), ours: show(ours) }),
    }
}

fn empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => sorted_text(other),
    }
}

/// Returns a value as text with sorted keys, as recordings have it. With `serde_json/preserve_order`, which the engine's libraries
/// switch on, objects keep the order in which they were written.
pub(crate) fn sorted_text(value: &Value) -> String {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(sorted).collect(),
            Value::Object(map) => {
                let map: BTreeMap<_, _> =
                    map.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
                Value::Object(map.into_iter().collect())
            }
            other => other.clone(),
        }
    }
    sorted(value).to_string()
}
