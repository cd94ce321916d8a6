//! Objects as tables, as `kubectl get` prints them.

mod core;
mod custom;
mod duration;
mod jsonpath;
mod other;
mod pods;
mod workloads;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{form::Shown, kinds::Resource, respond};

/// What a row carries besides its cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Object,
}

/// A column of a built-in kind: heading, type, format, and whether it is shown only in wide output.
struct Column(&'static str, &'static str, &'static str, bool);

/// A text column that is always shown.
const fn text(name: &'static str) -> Column {
    Column(name, "string", "", false)
}

/// A text column of wide output.
const fn wide(name: &'static str) -> Column {
    Column(name, "string", "", true)
}

const NAME: Column = Column("Name", "string", "name", false);
const AGE: Column = text("Age");

/// The cells of an object's row, at this time.
type Cells = fn(&Value, Timestamp) -> Vec<Value>;

/// How a kind is printed.
struct Printer {
    columns: &'static [Column],
    cells: Cells,
}

/// A table of objects; `apiVersion` and `metadata` are the caller's.
pub(crate) fn render(resource: &Resource, items: &[Shown], include: Include) -> Value {
    let now = Timestamp::now();
    let (columns, cells): (Vec<Value>, Vec<Vec<Value>>) = if let Some(custom) = resource.custom() {
        (custom::columns(custom), items.iter().map(|item| custom::cells(custom, item.value(), now)).collect())
    } else {
        let printer = printer(resource);
        let columns = printer
            .columns
            .iter()
            .map(|Column(name, kind, format, wide)| column(name, kind, format, "", i64::from(*wide)))
            .collect();
        // printers know the stored form: that of the newest version
        let cells = items.iter().map(|item| (printer.cells)(&hub(resource, item.value()), now)).collect();
        (columns, cells)
    };
    let rows: Vec<Value> =
        items.iter().zip(cells).map(|(item, cells)| row(resource, item, &cells, include)).collect();
    // kinds without a printer of their own write no rows as null
    let plain = columns.len() == 2 && columns[1]["name"] == "Created At";
    let rows = if rows.is_empty() && plain { Value::Null } else { Value::Array(rows) };
    json!({"kind": "Table", "columnDefinitions": columns, "rows": rows})
}

fn hub(resource: &Resource, value: &Value) -> Value {
    crate::kinds::views::to_hub(resource, value.clone())
}

fn row(resource: &Resource, item: &Shown, cells: &[Value], include: Include) -> Value {
    let mut row = json!({"cells": cells});
    if resource.custom().is_none() && resource.group.is_empty() && resource.plural == "pods" {
        let finished = match item.value()["status"]["phase"].as_str() {
            Some("Succeeded") => Some(("Succeeded", "The pod has completed successfully.")),
            Some("Failed") => Some(("Failed", "The pod failed.")),
            _ => None,
        };
        if let Some((reason, message)) = finished {
            row["conditions"] =
                json!([{"type": "Completed", "status": "True", "reason": reason, "message": message}]);
        }
    }
    row["object"] = match include {
        Include::Nothing => Value::Null,
        Include::Metadata => respond::partial(item.value(), "v1"),
        Include::Object => item.value().clone(),
    };
    row
}

fn column(name: &str, kind: &str, format: &str, description: &str, priority: i64) -> Value {
    json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
}

fn printer(resource: &Resource) -> Printer {
    let group = resource.group.as_str();
    let plural = resource.plural.as_str();
    pods::printer(group, plural)
        .or_else(|| core::printer(group, plural))
        .or_else(|| workloads::printer(group, plural))
        .or_else(|| other::printer(group, plural))
        .unwrap_or(Printer {
            columns: &[NAME, AGE],
            cells: |object, now| vec![name(object), age(object, now)],
        })
}

/// The object's name.
fn name(object: &Value) -> Value {
    object["metadata"]["name"].clone()
}

/// The time since the object was created.
fn age(object: &Value, now: Timestamp) -> Value {
    Value::from(since(&object["metadata"]["creationTimestamp"], now))
}

/// The time since a timestamp, short; `<unknown>` without one.
fn since(time: &Value, now: Timestamp) -> String {
    match time.as_str().and_then(|t| t.parse::<Timestamp>().ok()) {
        None => "<unknown>".to_owned(),
        Some(then) => duration::short(now.as_second() - then.as_second()),
    }
}

/// A text, or a placeholder for none.
fn or(value: &Value, placeholder: &str) -> Value {
    match value {
        Value::String(text) if !text.is_empty() => value.clone(),
        Value::Number(_) | Value::Bool(_) => Value::from(value.to_string()),
        _ => Value::from(placeholder),
    }
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Labels or a map selector as `a=b,c=d`.
fn labels(map: &Value) -> Value {
    let parts: Vec<String> = map
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    Value::from(if parts.is_empty() { "<none>".to_owned() } else { parts.join(",") })
}

/// A selector object as text.
fn selector(selector: &Value) -> Value {
    let text = crate::strategy::selector_text(selector);
    Value::from(if text.is_empty() { "<none>".to_owned() } else { text })
}

/// Names or images of the containers of a pod spec.
fn containers(spec: &Value, key: &str) -> Value {
    let all: Vec<&str> = list(&spec["containers"]).filter_map(|c| c[key].as_str()).collect();
    Value::from(all.join(","))
}
