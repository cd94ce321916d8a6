//! Validates values against a schema, with the wording of the reference's OpenAPI validator.

use longboat_types::float::shortest;
use serde_json::{Map, Value};

use super::{
    formats,
    lists::StoredItems,
    numbers::EXACT,
    path::{Path, join},
    structural::{Bounds, Logic, Node},
};
use crate::Cause;

/// The result of a validation, with the number of checks: if all alternatives fail, the reference reports the one that made
/// the most checks.
#[derive(Default)]
struct ValidationOutcome {
    causes: Vec<Cause>,
    checks: u32,
}

/// Returns all errors of `value`. With `old`, the corresponding stored value, unchanged parts are not validated
/// again (ratcheting).
pub(crate) fn check(value: &Value, old: Option<&Value>, schema: &Node) -> Vec<Cause> {
    let mut found = ValidationOutcome::default();
    found.node(value, old, schema, &mut Path::default());
    found.causes
}

/// The JSON type of a value. Floats without a fraction are numbers.
pub(crate) fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The error for a wrong type. `got` is both the printed value and the end of the message.
fn mistyped(path: &str, expected: &str, got: &str) -> Cause {
    let got = Value::from(got);
    Cause {
        reason: "FieldValueTypeInvalid",
        message: format!("Invalid value: {got}: {path} in body must be of type {expected}: {got}"),
        field: path.to_owned(),
    }
}

fn invalid(path: &str, value: &Value, detail: &str) -> Cause {
    Cause::invalid(path, value, format!("{path} in body {detail}"))
}

/// An error without a field.
fn nowhere(detail: String) -> Cause {
    Cause::invalid("<nil>", &Value::from(""), detail)
}

// === impl ValidationOutcome ===

impl ValidationOutcome {
    fn node(&mut self, value: &Value, old: Option<&Value>, schema: &Node, path: &mut Path) {
        if old == Some(value) {
            return;
        }
        let bounds = schema.bounds.as_deref();
        if value.is_null() {
            if !schema.types.is_empty() && !schema.nullable {
                self.causes.push(mistyped(path, &schema.types.join(","), "null"));
            }
            self.allowed(value, bounds, path);
            return;
        }
        self.typed(value, schema, path);
        if let Some(logic) = &schema.logic {
            self.logic(value, old, logic, path);
        }
        self.checks += 4;
        match value {
            Value::String(text) => {
                if let Some(bounds) = bounds {
                    self.string(value, text, bounds, path);
                }
            }
            Value::Number(_) => {
                if let Some(bounds) = bounds {
                    self.number(value, bounds, path);
                }
            }
            Value::Array(items) => self.array(value, items, old, schema, path),
            Value::Object(map) => self.object(map, old, schema, path),
            Value::Null | Value::Bool(_) => {}
        }
        self.allowed(value, bounds, path);
    }

    fn typed(&mut self, value: &Value, schema: &Node, path: &str) {
        if schema.types.is_empty() {
            return;
        }
        let has = |name: &str| schema.types.iter().any(|t| &**t == name);
        let got = type_of(value);
        let format = schema.bounds.as_ref().and_then(|b| b.format.as_deref()).unwrap_or_default();
        let is_whole = |f: f64| f.fract() == 0.0 && f.abs() < EXACT;
        let integral = got == "number" && value.as_f64().is_some_and(is_whole) && has("integer");
        let fits = has(got) || integral || (got == "integer" && has("number"));
        if fits {
            return;
        }
        // As in go-openapi (validate/type.go): of a string or list with a format, only the format is checked.
        if !format.is_empty() && !has("number") && !has("integer") && matches!(got, "string" | "array") {
            return;
        }
        if format.is_empty() || matches!(got, "string" | "array") {
            self.causes.push(mistyped(path, &schema.types.join(","), got));
        } else {
            let own = match got {
                "integer" => "int64",
                "number" => "double",
                _ => "",
            };
            self.causes.push(mistyped(path, format, own));
        }
    }

    fn allowed(&mut self, value: &Value, bounds: Option<&Bounds>, path: &str) {
        let Some(values) = bounds.and_then(|b| b.values.as_ref()) else { return };
        if values.iter().any(|allowed| same(allowed, value)) {
            return;
        }
        let known: Vec<String> = values
            .iter()
            .map(|v| Value::from(v.as_str().map_or_else(|| v.to_string(), str::to_owned)).to_string())
            .collect();
        self.causes.push(Cause {
            reason: "FieldValueNotSupported",
            message: format!("Unsupported value: {value}: supported values: {}", known.join(", ")),
            field: path.to_owned(),
        });
    }

    fn string(&mut self, value: &Value, text: &str, bounds: &Bounds, path: &str) {
        // Of length and pattern, go-openapi reports only the first that is wrong.
        if bounds.max_length.is_some() || bounds.min_length.is_some() {
            let length = text.chars().count() as u64;
            if let Some(most) = bounds.max_length
                && length > most
            {
                self.causes.push(Cause::too_long(path, usize::try_from(most).unwrap_or(usize::MAX)));
                return self.format(text, bounds, path);
            }
            if let Some(least) = bounds.min_length
                && length < least
            {
                let detail = format!("should be at least {least} chars long");
                self.causes.push(invalid(path, value, &detail));
                return self.format(text, bounds, path);
            }
        }
        if let Some(pattern) = &bounds.pattern
            && !pattern.matches(text)
        {
            self.causes.push(invalid(path, value, &format!("should match '{}'", pattern.source)));
        }
        self.format(text, bounds, path);
    }

    fn format(&mut self, text: &str, bounds: &Bounds, path: &str) {
        if let Some(format) = &bounds.format
            && !formats::matches(format, text)
        {
            self.causes.push(mistyped(path, format, text));
        }
    }

    fn number(&mut self, value: &Value, bounds: &Bounds, path: &str) {
        let Some(n) = value.as_f64() else { return };
        if let Some(factor) = bounds.multiple_of
            && factor > 0.0
            && (n / factor).fract() != 0.0
        {
            let detail = format!("should be a multiple of {}", shortest(factor));
            self.causes.push(invalid(path, value, &detail));
        }
        if let Some(most) = bounds.maximum
            && (n > most || (bounds.exclusive_maximum && n >= most))
        {
            let or = if bounds.exclusive_maximum { "" } else { " or equal to" };
            let detail = format!("should be less than{or} {}", shortest(most));
            self.causes.push(invalid(path, value, &detail));
        }
        if let Some(least) = bounds.minimum
            && (n < least || (bounds.exclusive_minimum && n <= least))
        {
            let or = if bounds.exclusive_minimum { "" } else { " or equal to" };
            let detail = format!("should be greater than{or} {}", shortest(least));
            self.causes.push(invalid(path, value, &detail));
        }
    }

    fn array(&mut self, value: &Value, items: &[Value], old: Option<&Value>, schema: &Node, path: &mut Path) {
        if let Some(child) = &schema.items {
            let stored = StoredItems::of(schema, old);
            for (index, item) in items.iter().enumerate() {
                path.item(index, |path| self.node(item, stored.get(item), child, path));
            }
        }
        let Some(bounds) = &schema.bounds else { return };
        let count = items.len() as u64;
        if let Some(least) = bounds.min_items
            && count < least
        {
            let detail = format!("should have at least {least} items");
            // The reference prints the number of items.
            self.causes.push(invalid(path, &Value::from(count), &detail));
        }
        if let Some(most) = bounds.max_items
            && count > most
        {
            self.causes.push(Cause::too_many(&**path, items.len(), most));
        }
        if bounds.unique_items {
            let mut seen = std::collections::HashSet::new();
            if !items.iter().all(|item| seen.insert(item.to_string())) {
                self.causes.push(invalid(path, value, "shouldn't contain duplicates"));
            }
        }
    }

    fn object(&mut self, map: &Map<String, Value>, old: Option<&Value>, schema: &Node, path: &mut Path) {
        if let Some(bounds) = &schema.bounds {
            let count = map.len() as u64;
            if let Some(least) = bounds.min_properties
                && count < least
            {
                let detail = format!("should have at least {least} properties");
                self.causes.push(invalid(path, &Value::from(count), &detail));
                return;
            }
            if let Some(most) = bounds.max_properties
                && count > most
            {
                self.causes.push(Cause::too_many(&**path, map.len(), most));
                return;
            }
        }
        for (name, value) in map {
            let Some(child) = schema.field(name) else { continue };
            path.member(name, |path| self.node(value, old.and_then(|o| o.get(name)), child, path));
        }
        for name in &schema.required {
            if !map.contains_key(&**name) {
                self.causes.push(Cause::required(join(path, name), ""));
            }
        }
    }

    fn logic(&mut self, value: &Value, old: Option<&Value>, logic: &Logic, path: &mut Path) {
        let judge = |branch: &Node, path: &mut Path| {
            let mut found = Self::default();
            found.node(value, old, branch, path);
            found
        };
        if !logic.any_of.is_empty() {
            let mut best: Option<Self> = None;
            let mut passed = false;
            for branch in &logic.any_of {
                let found = judge(branch, path);
                if found.causes.is_empty() {
                    self.checks += found.checks;
                    passed = true;
                    break;
                }
                keep_better(&mut best, found);
            }
            if !passed {
                self.causes
                    .push(nowhere(format!("\"{}\" must validate at least one schema (anyOf)", &**path)));
                self.take(best);
            }
        }
        if !logic.one_of.is_empty() {
            let mut best: Option<Self> = None;
            let mut passed = 0;
            for branch in &logic.one_of {
                let found = judge(branch, path);
                if found.causes.is_empty() {
                    self.checks += found.checks;
                    passed += 1;
                    best = None;
                } else if passed == 0 {
                    keep_better(&mut best, found);
                }
            }
            if passed != 1 {
                let why = if passed == 0 {
                    "Found none valid".to_owned()
                } else {
                    format!("Found {passed} valid alternatives")
                };
                self.causes.push(nowhere(format!(
                    "\"{}\" must validate one and only one schema (oneOf). {why}",
                    &**path
                )));
                self.take(best);
            }
        }
        if !logic.all_of.is_empty() {
            let mut passed = 0;
            for branch in &logic.all_of {
                let found = judge(branch, path);
                passed += usize::from(found.causes.is_empty());
                self.take(Some(found));
            }
            if passed != logic.all_of.len() {
                let none = if passed == 0 { ". None validated" } else { "" };
                self.causes
                    .push(nowhere(format!("\"{}\" must validate all the schemas (allOf){none}", &**path)));
            }
        }
        if let Some(branch) = &logic.not
            && judge(branch, path).causes.is_empty()
        {
            self.causes.push(nowhere(format!("\"{}\" must not validate the schema (not)", &**path)));
        }
    }

    fn take(&mut self, found: Option<Self>) {
        if let Some(found) = found {
            self.causes.extend(found.causes);
            self.checks += found.checks;
        }
    }
}

fn keep_better(best: &mut Option<ValidationOutcome>, found: ValidationOutcome) {
    if best.as_ref().is_none_or(|best| found.checks > best.checks) {
        *best = Some(found);
    }
}

/// Whether two JSON values are equal. Numbers are compared by value.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}
