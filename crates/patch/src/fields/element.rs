//! One step of a path.

use std::{cmp::Ordering, fmt};

use serde_json::{Number, Value};

use crate::gofmt;

/// One step of a path into an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Element {
    /// A field of a struct or an entry of a map: `f:name`.
    Field(String),
    /// An element of a list, identified by its key fields, sorted by name: `k:{"name":"x"}`.
    Key(Vec<(String, Value)>),
    /// An element of a set: `v:"x"`.
    Value(Value),
    /// An element of a list by position: `i:0`.
    Index(i64),
}

impl Eq for Element {}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(left), Self::Field(right)) => left.cmp(right),
            (Self::Key(left), Self::Key(right)) => compare_keys(left, right),
            (Self::Value(left), Self::Value(right)) => compare(left, right),
            (Self::Index(left), Self::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl Element {
    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }

    /// Creates the element for a field.
    pub fn field(name: impl Into<String>) -> Self {
        Self::Field(name.into())
    }
}

impl fmt::Display for Element {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(out, ".{name}"),
            Self::Key(keys) => {
                let words: Vec<String> =
                    keys.iter().map(|(name, value)| format!("{name}={}", value_text(value))).collect();
                write!(out, "[{}]", words.join(","))
            }
            Self::Value(value) => write!(out, "[={}]", value_text(value)),
            Self::Index(index) => write!(out, "[{index}]"),
        }
    }
}

/// Formats a value in a path: strings quoted, an object as its fields without separators.
fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => gofmt::quote(text),
        Value::Null => "null".to_owned(),
        Value::Object(fields) => {
            fields.iter().fold(String::new(), |text, (name, value)| text + name + "=" + &value_text(value))
        }
        other => gofmt::plain(other),
    }
}

/// A path into an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<Element>);

impl Path {
    /// Creates a path that has only fields.
    pub fn of_fields(names: &[&str]) -> Self {
        Self(names.iter().map(|name| Element::field(*name)).collect())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(out))
    }
}

fn compare_keys(left: &[(String, Value)], right: &[(String, Value)]) -> Ordering {
    for ((left_name, left_value), (right_name, right_value)) in left.iter().zip(right) {
        let order = left_name.cmp(right_name).then_with(|| compare(left_value, right_value));
        if order != Ordering::Equal {
            return order;
        }
    }
    left.len().cmp(&right.len())
}

/// A total order of JSON: numbers, strings, booleans, lists, objects, null.
fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => left
            .iter()
            .zip(right)
            .map(|(left, right)| compare(left, right))
            .find(|order| *order != Ordering::Equal)
            .unwrap_or_else(|| left.len().cmp(&right.len())),
        (Value::Object(left), Value::Object(right)) => {
            let sorted = |map: &serde_json::Map<String, Value>| {
                let mut pairs: Vec<(String, Value)> =
                    map.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
                pairs.sort_by(|left, right| left.0.cmp(&right.0));
                pairs
            };
            compare_keys(&sorted(left), &sorted(right))
        }
        _ => kind_rank(left).cmp(&kind_rank(right)),
    }
}

/// Compares numbers. They are only equal if they are written alike, so that the order agrees with equality.
fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    if let (Some(left), Some(right)) = (left.as_i64(), right.as_i64()) {
        return left.cmp(&right);
    }
    let (left_float, right_float) = (left.as_f64().unwrap_or(0.0), right.as_f64().unwrap_or(0.0));
    left_float
        .total_cmp(&right_float)
        .then_with(|| left.is_f64().cmp(&right.is_f64()))
        .then_with(|| left.as_u64().cmp(&right.as_u64()))
}

fn kind_rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}
