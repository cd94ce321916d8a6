//! Checks whether a value matches a JSON schema.

use regex::Regex;
use serde_json::{Map, Value};

use super::limits::{Budget, MAX_DEPTH};

/// The most steps of one check.
const MAX_STEPS: usize = 200_000;

/// Whether the value matches. The error names the part of the schema that is not supported.
pub(super) fn fits(schema: &Value, value: &Value) -> Result<bool, String> {
    Checker { root: schema, budget: Budget::new(MAX_STEPS) }.fits(schema, value, 0)
}

/// Whether a value has the type, or one of the types, that a schema names.
pub(super) fn has_type(value: &Value, kind: Option<&Value>) -> bool {
    let is = |kind: &str| match (kind, value) {
        ("null", Value::Null)
        | ("boolean", Value::Bool(_))
        | ("string", Value::String(_))
        | ("array", Value::Array(_))
        | ("object", Value::Object(_))
        | ("number", Value::Number(_)) => true,
        ("integer", Value::Number(number)) => {
            number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
        }
        _ => false,
    };
    match kind {
        None => true,
        Some(Value::String(kind)) => is(kind),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).any(is),
        Some(_) => false,
    }
}

/// Returns the schema that a local reference names.
pub(super) fn resolve<'a>(root: &'a Value, reference: &str) -> Result<&'a Value, String> {
    let shown: String = reference.chars().take(80).collect();
    let pointer = reference.strip_prefix('#').ok_or_else(|| {
        format!("the reference `{shown}` does not begin with `#`: others are not simulated")
    })?;
    root.pointer(pointer).ok_or_else(|| format!("the target of the reference `{shown}` does not exist"))
}

/// Returns the schemas of the first items of an array, and that of the others. Older schemas list the first items under `items`.
pub(super) fn item_schemas(fields: &Map<String, Value>) -> (&[Value], Option<&Value>) {
    let listed = fields.get("items").filter(|items| items.is_array());
    let first = fields.get("prefixItems").or(listed).and_then(Value::as_array);
    let rest = fields.get(if listed.is_some() { "additionalItems" } else { "items" });
    (first.map(Vec::as_slice).unwrap_or_default(), rest)
}

struct Checker<'a> {
    root: &'a Value,
    budget: Budget,
}

impl Checker<'_> {
    fn fits(&self, schema: &Value, value: &Value, depth: usize) -> Result<bool, String> {
        self.budget.step()?;
        if depth > 2 * MAX_DEPTH {
            return Err("the schema refers to itself endlessly".to_owned());
        }
        let fields = match schema {
            Value::Object(fields) => fields,
            Value::Bool(fits) => return Ok(*fits),
            _ => return Err("a schema must be an object, true or false".to_owned()),
        };
        if let Some(reference) = fields.get("$ref").and_then(Value::as_str)
            && !self.fits(resolve(self.root, reference)?, value, depth + 1)?
        {
            return Ok(false);
        }
        let count = |keyword: &str| -> Result<Option<usize>, String> {
            let Some(parts) = fields.get(keyword).and_then(Value::as_array) else { return Ok(None) };
            let mut fitting = 0;
            for part in parts {
                fitting += usize::from(self.fits(part, value, depth + 1)?);
            }
            Ok(Some(fitting))
        };
        let all = fields.get("allOf").and_then(Value::as_array).map_or(0, Vec::len);
        if count("allOf")?.is_some_and(|fitting| fitting < all)
            || count("anyOf")?.is_some_and(|fitting| fitting == 0)
            || count("oneOf")?.is_some_and(|fitting| fitting != 1)
        {
            return Ok(false);
        }
        let listed = fields.get("enum").and_then(Value::as_array).is_none_or(|list| list.contains(value));
        let same = fields.get("const").is_none_or(|constant| constant == value);
        if !listed || !same || !has_type(value, fields.get("type")) {
            return Ok(false);
        }
        match value {
            Value::Number(number) => Ok(is_within(fields, number.as_f64().unwrap_or_default())),
            Value::String(text) => string(fields, text),
            Value::Array(items) => self.array(fields, items, depth),
            Value::Object(object) => self.object(fields, object, depth),
            Value::Null | Value::Bool(_) => Ok(true),
        }
    }

    fn array(&self, fields: &Map<String, Value>, items: &[Value], depth: usize) -> Result<bool, String> {
        if !has_size(fields, "minItems", "maxItems", items.len()) {
            return Ok(false);
        }
        let is_twice = |(index, item): (usize, &Value)| items[..index].contains(item);
        if fields.get("uniqueItems") == Some(&Value::Bool(true)) && items.iter().enumerate().any(is_twice) {
            return Ok(false);
        }
        let (first, rest) = item_schemas(fields);
        for (index, item) in items.iter().enumerate() {
            if let Some(schema) = first.get(index).or(rest)
                && !self.fits(schema, item, depth + 1)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn object(
        &self,
        fields: &Map<String, Value>,
        object: &Map<String, Value>,
        depth: usize,
    ) -> Result<bool, String> {
        let required = fields.get("required").and_then(Value::as_array).into_iter().flatten();
        let has_all = required.filter_map(Value::as_str).all(|name| object.contains_key(name));
        if !has_all || !has_size(fields, "minProperties", "maxProperties", object.len()) {
            return Ok(false);
        }
        let known = fields.get("properties").and_then(Value::as_object);
        for (name, value) in object {
            let schema =
                known.and_then(|known| known.get(name)).or_else(|| fields.get("additionalProperties"));
            if let Some(schema) = schema
                && !self.fits(schema, value, depth + 1)?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn is_within(fields: &Map<String, Value>, number: f64) -> bool {
    let bound = |key: &str| fields.get(key).and_then(Value::as_f64);
    // Older schemas write an exclusive bound as a flag beside the bound.
    let flag = |key: &str| fields.get(key).and_then(Value::as_bool) == Some(true);
    let is_multiple = |step: f64| {
        let count = number / step;
        (count - count.round()).abs() < 1e-6
    };
    bound("minimum").is_none_or(|low| number > low || (number >= low && !flag("exclusiveMinimum")))
        && bound("maximum").is_none_or(|high| number < high || (number <= high && !flag("exclusiveMaximum")))
        && bound("exclusiveMinimum").is_none_or(|low| number > low)
        && bound("exclusiveMaximum").is_none_or(|high| number < high)
        && bound("multipleOf").is_none_or(is_multiple)
}

fn string(fields: &Map<String, Value>, text: &str) -> Result<bool, String> {
    if !has_size(fields, "minLength", "maxLength", text.chars().count()) {
        return Ok(false);
    }
    match fields.get("pattern").and_then(Value::as_str) {
        None => Ok(true),
        Some(pattern) => match Regex::new(pattern) {
            Ok(pattern) => Ok(pattern.is_match(text)),
            Err(_) => Err("a pattern is invalid".to_owned()),
        },
    }
}

fn has_size(fields: &Map<String, Value>, least: &str, most: &str, size: usize) -> bool {
    let bound = |key: &str| fields.get(key).and_then(Value::as_f64);
    #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^52")]
    let size = size as f64;
    bound(least).is_none_or(|least| size >= least) && bound(most).is_none_or(|most| size <= most)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_that_break_one_keyword_do_not_fit() {
        for (schema, good, bad) in [
            (json!({"type": "integer"}), json!(1), json!(1.5)),
            (json!({"type": ["string", "null"]}), json!(null), json!(1)),
            (json!({"minimum": 2, "exclusiveMinimum": true}), json!(3), json!(2)),
            (json!({"multipleOf": 0.1}), json!(0.3), json!(0.35)),
            (json!({"maxLength": 2}), json!("ab"), json!("abc")),
            (json!({"pattern": "b$"}), json!("ab"), json!("ba")),
            (json!({"items": {"type": "string"}, "minItems": 1}), json!(["x"]), json!([])),
            (json!({"prefixItems": [{"const": 1}], "items": false}), json!([1]), json!([1, 2])),
            (json!({"uniqueItems": true}), json!([1, 2]), json!([1, 1])),
            (json!({"required": ["a"]}), json!({"a": 1}), json!({"b": 1})),
            (
                json!({"properties": {"a": {}}, "additionalProperties": false}),
                json!({"a": 1}),
                json!({"b": 1}),
            ),
            (json!({"oneOf": [{"type": "integer"}, {"minimum": 5}]}), json!(1), json!(6)),
            (json!({"anyOf": [{"const": 1}, {"const": 2}]}), json!(2), json!(3)),
            (json!({"allOf": [{"minimum": 1}, {"maximum": 2}]}), json!(2), json!(3)),
            (json!({"enum": ["x"]}), json!("x"), json!("y")),
        ] {
            assert_eq!(fits(&schema, &good), Ok(true), "{schema} {good}");
            assert_eq!(fits(&schema, &bad), Ok(false), "{schema} {bad}");
        }
    }
}
