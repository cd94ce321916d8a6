//! How a kind is printed: its columns, and the cells of a row.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::duration;

/// A column of a built-in kind: heading, type, format, and whether it only appears in wide output.
#[derive(Debug)]
pub(super) struct Column(
    pub(super) &'static str,
    pub(super) &'static str,
    pub(super) &'static str,
    pub(super) bool,
);

/// A text column that always appears.
pub(super) const fn text(name: &'static str) -> Column {
    Column(name, "string", "", false)
}

/// An integer column that always appears.
pub(super) const fn integer(name: &'static str) -> Column {
    Column(name, "integer", "", false)
}

/// A boolean column that always appears.
pub(super) const fn boolean(name: &'static str) -> Column {
    Column(name, "boolean", "", false)
}

/// A text column that only appears in wide output.
pub(super) const fn wide(name: &'static str) -> Column {
    Column(name, "string", "", true)
}

pub(super) const NAME: Column = Column("Name", "string", "name", false);
pub(super) const AGE: Column = text("Age");

/// Returns the cells of an object's row at this time.
pub(super) type Cells = fn(&Value, Timestamp) -> Vec<Value>;

/// Returns reason and message if the object has ended.
pub(super) type EndReason = fn(&Value) -> Option<(&'static str, &'static str)>;

/// How a built-in kind is printed.
#[derive(Debug)]
pub(crate) struct Printer {
    pub(super) columns: &'static [Column],
    pub(super) cells: Cells,
    /// Says how an object has ended, for kinds whose rows show it.
    pub(super) finished: Option<EndReason>,
}

/// Makes a printer of rows `column => cell`. What the cells have in common comes first, in braces.
macro_rules! printer {
    (|$object:ident, $now:ident| { $($common:tt)* } $($column:expr => $cell:expr,)+) => {
        $crate::tables::printer::Printer::new(&[$($column),+], |$object, $now| {
            $($common)*
            vec![$(serde_json::Value::from($cell)),+]
        })
    };
    (|$object:ident, $now:ident| $($rows:tt)+) => {
        printer!(|$object, $now| {} $($rows)+)
    };
}
pub(super) use printer;

// === impl Printer ===

impl Printer {
    pub(super) const fn new(columns: &'static [Column], cells: Cells) -> Self {
        Self { columns, cells, finished: None }
    }
}

/// The object's name.
pub(super) fn name(object: &Value) -> Value {
    object["metadata"]["name"].clone()
}

/// The time since the object was created.
pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    Value::from(since(&object["metadata"]["creationTimestamp"], now))
}

/// Returns the time since a timestamp in short form, or `<unknown>` without a timestamp.
pub(super) fn since(time: &Value, now: Timestamp) -> String {
    match time.as_str().and_then(|t| t.parse::<Timestamp>().ok()) {
        None => "<unknown>".to_owned(),
        Some(then) => duration::short(now.as_second() - then.as_second()),
    }
}

/// Returns a text, or the placeholder if there is none.
pub(super) fn or(value: &Value, placeholder: &str) -> Value {
    match value {
        Value::String(text) if !text.is_empty() => value.clone(),
        Value::Number(_) | Value::Bool(_) => Value::from(value.to_string()),
        _ => Value::from(placeholder),
    }
}

pub(super) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

pub(super) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Formats labels or a map selector as `a=b,c=d`.
pub(super) fn labels(map: &Value) -> Value {
    let parts: Vec<String> = map
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    Value::from(if parts.is_empty() { "<none>".to_owned() } else { parts.join(",") })
}

/// Formats a label selector object as text.
pub(super) fn selector(selector: &Value) -> Value {
    let text = crate::strategy::selector_text(selector);
    Value::from(if text.is_empty() { "<none>".to_owned() } else { text })
}

/// Returns the names or images of the containers of a pod spec.
pub(super) fn containers(spec: &Value, key: &str) -> Value {
    let all: Vec<&str> = list(&spec["containers"]).filter_map(|c| c[key].as_str()).collect();
    Value::from(all.join(","))
}

/// Joins the first three texts and says how many more there are.
pub(super) fn shortened(all: &[String]) -> String {
    match all.len() {
        0 => "<none>".to_owned(),
        1..=3 => all.join(","),
        more => format!("{} + {} more...", all[..3].join(","), more - 3),
    }
}

/// Returns the definition of a column.
pub(super) fn column(name: &str, kind: &str, format: &str, description: &str, priority: i64) -> Value {
    json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
}
