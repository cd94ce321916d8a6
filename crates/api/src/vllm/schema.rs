//! Schemas of the JSON that flags of vLLM take, and which values pydantic takes for them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// Longer lists of values are counted, not listed.
const MAX_LISTED: usize = 24;

/// The part of JSON Schema that `tests/vllm/options.py` records.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Schema {
    /// The schemas of which one holds. Empty if there is only this one.
    any_of: Vec<Self>,
    /// The allowed values. Empty if there is no list.
    r#enum: Vec<Value>,
    items: Option<Box<Self>>,
    /// The fields of an object, which has no others. Empty if it has any fields.
    pub properties: BTreeMap<String, Self>,
    /// What the fields of an object without a list of fields are.
    additional_properties: Option<Box<Self>>,
    /// `None` takes values of all types.
    r#type: Option<Type>,
    /// Limits of a number.
    #[serde(flatten)]
    pub bounds: Bounds,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Type {
    Array,
    Boolean,
    Integer,
    Null,
    Number,
    Object,
    String,
}

/// The least and the greatest value of a number.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Bounds {
    minimum: Option<f64>,
    exclusive_minimum: Option<f64>,
    maximum: Option<f64>,
    exclusive_maximum: Option<f64>,
}

/// A part of a value that vLLM does not take.
#[derive(Debug)]
pub struct Mismatch<'a> {
    /// The names of the fields, and positions in lists, on the way to it: `pass_config.fuse_norm_quant`.
    pub path: String,
    /// The value there, as JSON.
    pub value: String,
    /// What is wrong there.
    pub problem: Problem<'a>,
}

/// What is wrong with a value.
#[derive(Debug)]
pub enum Problem<'a> {
    /// The object has no such field, but these.
    UnknownField(Vec<&'a str>),
    /// It is none of the values of a list, in words. Other versions may have other lists.
    UnknownValue(String),
    /// It has another type, or is out of bounds: what is expected, in words.
    WrongValue(String),
}

// === impl Schema ===

impl Schema {
    /// Returns the first part of a value that pydantic does not take. It takes more than JSON Schema does, such as `"8"` for a number.
    pub fn mismatch(&self, value: &Value) -> Option<Mismatch<'_>> {
        if !self.any_of.is_empty() {
            let mut mismatches = Vec::new();
            for schema in &self.any_of {
                mismatches.push(schema.mismatch(value)?);
            }
            // The alternative that fits best says what is wrong inside.
            return mismatches
                .into_iter()
                .find(|mismatch| !mismatch.path.is_empty())
                .or_else(|| Some(self.mismatch_at(value)));
        }
        if !self.is_listed(value) || !self.r#type.is_none_or(|r#type| self.is_of_type(r#type, value)) {
            return Some(self.mismatch_at(value));
        }
        match value {
            Value::Array(items) => {
                let schema = self.items.as_deref()?;
                let mut items = items.iter().enumerate();
                items.find_map(|(position, item)| Some(schema.mismatch(item)?.inside(&position.to_string())))
            }
            Value::Object(fields) => fields
                .iter()
                .find_map(|(name, field)| Some(self.mismatch_of_field(name, field)?.inside(name))),
            _ => None,
        }
    }

    fn mismatch_of_field(&self, name: &str, value: &Value) -> Option<Mismatch<'_>> {
        match self.properties.get(name) {
            Some(schema) => schema.mismatch(value),
            None if self.properties.is_empty() => self.additional_properties.as_ref()?.mismatch(value),
            None => Some(Mismatch {
                path: String::new(),
                value: value.to_string(),
                problem: Problem::UnknownField(self.properties.keys().map(String::as_str).collect()),
            }),
        }
    }

    fn mismatch_at(&self, value: &Value) -> Mismatch<'_> {
        let has_list = |schema: &Self| !schema.r#enum.is_empty();
        let expected = self.expected();
        let problem = if has_list(self) || self.any_of.iter().any(has_list) {
            Problem::UnknownValue(expected)
        } else {
            Problem::WrongValue(expected)
        };
        Mismatch { path: String::new(), value: value.to_string(), problem }
    }

    fn is_listed(&self, value: &Value) -> bool {
        if self.r#enum.is_empty() {
            return true;
        }
        match value.as_str() {
            // A word that is listed in both cases is taken in every case.
            Some(word) => self.has(word) || self.has(&word.to_lowercase()) && self.has(&word.to_uppercase()),
            // For Python, true is 1.
            None => self
                .r#enum
                .iter()
                .any(|listed| listed == value || listed.is_number() && number(listed) == number(value)),
        }
    }

    fn has(&self, word: &str) -> bool {
        self.r#enum.iter().any(|listed| listed == word)
    }

    fn is_of_type(&self, r#type: Type, value: &Value) -> bool {
        match r#type {
            Type::Array => value.is_array(),
            Type::Boolean => is_boolean(value),
            Type::Integer => number(value)
                .is_some_and(|number| number.fract() == 0.0 && self.bounds.broken(number).is_none()),
            Type::Null => value.is_null(),
            Type::Number => number(value).is_some_and(|number| self.bounds.broken(number).is_none()),
            Type::Object => value.is_object(),
            Type::String => value.is_string(),
        }
    }

    /// What it takes, in words.
    pub(super) fn expected(&self) -> String {
        if !self.any_of.is_empty() {
            return self.any_of.iter().map(Self::expected).collect::<Vec<_>>().join(" or ");
        }
        if !self.r#enum.is_empty() {
            let is_shown = |value: &&Value| {
                let lower = value.as_str().map(str::to_lowercase);
                lower.is_none_or(|lower| *value == &lower || !self.has(&lower))
            };
            let shown: Vec<String> = self.r#enum.iter().filter(is_shown).map(Value::to_string).collect();
            return if shown.len() > MAX_LISTED {
                format!("one of {} values", shown.len())
            } else {
                format!("one of {}", shown.join(", "))
            };
        }
        let r#type = match self.r#type {
            None => "any value",
            Some(Type::Array) => "a list",
            Some(Type::Boolean) => "true or false",
            Some(Type::Integer) => "a whole number",
            Some(Type::Null) => "null",
            Some(Type::Number) => "a number",
            Some(Type::Object) => "an object",
            Some(Type::String) => "a string",
        };
        let bounds = self.bounds.to_string();
        if bounds.is_empty() { r#type.to_owned() } else { format!("{type} {bounds}") }
    }
}

/// Reads a number as pydantic does: also from a string or a boolean.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(is_one) => Some(f64::from(u8::from(*is_one))),
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().replace('_', "").parse().ok(),
        _ => None,
    }
}

/// Whether pydantic takes a value for a boolean: some words and numbers, too.
fn is_boolean(value: &Value) -> bool {
    const WORDS: [&str; 12] = ["0", "off", "f", "false", "n", "no", "1", "on", "t", "true", "y", "yes"];
    match value {
        Value::Bool(_) => true,
        Value::Number(_) => number(value).is_some_and(|number| [0.0, 1.0].contains(&number)),
        Value::String(text) => WORDS.contains(&text.to_ascii_lowercase().as_str()),
        _ => false,
    }
}

// === impl Mismatch ===

impl Mismatch<'_> {
    /// Puts a step before the path.
    fn inside(mut self, step: &str) -> Self {
        self.path = if self.path.is_empty() { step.to_owned() } else { format!("{step}.{}", self.path) };
        self
    }
}

// === impl Bounds ===

impl Bounds {
    /// Returns the bounds in words if a number breaks one of them.
    pub fn broken(&self, number: f64) -> Option<String> {
        let holds = self.minimum.is_none_or(|bound| number >= bound)
            && self.exclusive_minimum.is_none_or(|bound| number > bound)
            && self.maximum.is_none_or(|bound| number <= bound)
            && self.exclusive_maximum.is_none_or(|bound| number < bound);
        (!holds).then(|| self.to_string())
    }
}

impl std::fmt::Display for Bounds {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let all = [
            ("at least", self.minimum),
            ("above", self.exclusive_minimum),
            ("at most", self.maximum),
            ("below", self.exclusive_maximum),
        ];
        let mut separator = "";
        for (words, bound) in all {
            if let Some(bound) = bound {
                write!(formatter, "{separator}{words} {bound}")?;
                separator = " and ";
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Schema;

    #[test]
    fn what_pydantic_takes_for_a_type_has_no_mismatch() {
        let schema = |schema| serde_json::from_value::<Schema>(schema).unwrap();
        let whole = json!({"type": "integer", "minimum": 1});
        let optional = json!({"anyOf": [whole, {"type": "null"}]});
        let listed = json!({"anyOf": [{"enum": ["a", "b"]}, {"type": "null"}]});
        let object = json!({"properties": {"sizes": {"type": "array", "items": whole}}});
        for (of, good, bad, says) in [
            (
                whole,
                vec![json!(1), json!("8"), json!(2.0), json!(true)],
                json!(0),
                "a whole number at least 1",
            ),
            (optional, vec![json!(null), json!(3)], json!(1.5), "a whole number at least 1 or null"),
            (listed, vec![json!("a"), json!(null)], json!("c"), "one of \"a\", \"b\" or null"),
            (json!({"type": "boolean"}), vec![json!("off"), json!(1)], json!("maybe"), "true or false"),
            (json!({"type": "string"}), vec![json!("")], json!(1), "a string"),
            (object, vec![json!({}), json!({"sizes": [1]})], json!({"sizes": [1, "x"]}), "sizes.1"),
            (
                json!({"additionalProperties": {"type": "integer"}}),
                vec![json!({"a": 1})],
                json!({"a": []}),
                "a",
            ),
            (json!({}), vec![json!([]), json!(null)], json!(null), ""),
        ] {
            let schema = schema(of.clone());
            for value in good {
                assert!(schema.mismatch(&value).is_none(), "{of} {value}");
            }
            let found = schema.mismatch(&bad).map(|mismatch| format!("{mismatch:?}")).unwrap_or_default();
            assert!(found.contains(&says.replace('"', "\\\"")), "{of} {bad}: {found}");
        }
    }
}
