//! Tables for custom resources, from `additionalPrinterColumns`.

use jiff::Timestamp;
use serde_json::Value;

use super::{
    duration, jsonpath,
    printer::{age, column, name},
};
use crate::kinds::Custom;

pub(super) fn columns(custom: &Custom) -> Vec<Value> {
    let mut columns = vec![column("Name", "string", "name", "", 0)];
    if custom.columns.is_empty() {
        columns.push(column("Age", "date", "", "", 0));
    }
    columns.extend(custom.columns.iter().map(|c| {
        let fallback;
        let description = if c.description.is_empty() {
            fallback = format!("Custom resource definition column (in JSONPath format): {}", c.path);
            &fallback
        } else {
            &c.description
        };
        column(&c.name, &c.kind, &c.format, description, c.priority)
    }));
    columns
}

pub(super) fn cells(custom: &Custom, object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = vec![name(object)];
    if custom.columns.is_empty() {
        cells.push(age(object, now));
    }
    cells.extend(custom.columns.iter().map(|column| {
        let found = jsonpath::find(object, &column.path);
        if found.is_empty() {
            return Value::Null;
        }
        match column.kind.as_str() {
            "integer" => found[0]
                .as_i64()
                .or_else(|| found[0].as_f64().map(truncated))
                .map_or(Value::Null, Value::from),
            "number" => found[0].as_f64().map_or(Value::Null, Value::from),
            "boolean" => found[0].as_bool().map_or(Value::Null, Value::from),
            "date" => match found[0].as_str().map(str::parse::<Timestamp>) {
                Some(Ok(then)) => Value::from(duration::short(now.as_second() - then.as_second())),
                Some(Err(_)) => Value::from("<invalid>"),
                None => Value::Null,
            },
            _ => {
                let texts: Vec<String> = found
                    .iter()
                    .map(|value| match value {
                        Value::String(text) => text.clone(),
                        other => other.to_string(),
                    })
                    .collect();
                Value::from(texts.join(" "))
            }
        }
    }));
    cells
}

#[expect(clippy::cast_possible_truncation, reason = "the reference truncates, too")]
fn truncated(number: f64) -> i64 {
    number as i64
}
