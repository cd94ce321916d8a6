//! Generates JSON that matches a schema.

use rand::{Rng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Map, Number, Value};

use super::{
    check,
    limits::{Budget, MAX_DEPTH, MAX_LENGTH, SIMPLE_VALUES_DEPTH},
    merge, pattern,
};

/// The most steps for generating one value.
const MAX_STEPS: usize = 20_000;
/// The number of fields or items beyond those that a schema requires.
const EXTRA: usize = 2;
/// Keywords that restrict values and that are not supported.
const UNKNOWN: [&str; 15] = [
    "not",
    "if",
    "then",
    "else",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "patternProperties",
    "propertyNames",
    "contains",
    "minContains",
    "maxContains",
    "unevaluatedProperties",
    "unevaluatedItems",
    "$dynamicRef",
];

/// The largest integer that every JSON reader keeps exactly.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

/// Generates a value that matches the schema. The error names the part of the schema that is not supported.
pub(super) fn make(schema: &Value, random: &mut StdRng) -> Result<Value, String> {
    let mut maker = JsonGenerator { root: schema, random, budget: Budget::new(MAX_STEPS) };
    let value = maker.value(schema, 0)?;
    // The generator may misinterpret a combination of keywords, so the checker verifies the value.
    if check::fits(schema, &value)? {
        Ok(value)
    } else {
        Err("this combination of keywords is not simulated, or no value can fit the schema".to_owned())
    }
}

struct JsonGenerator<'a, 'r> {
    root: &'a Value,
    random: &'r mut StdRng,
    budget: Budget,
}

impl JsonGenerator<'_, '_> {
    fn value(&mut self, schema: &Value, depth: usize) -> Result<Value, String> {
        self.budget.step()?;
        if depth > MAX_DEPTH {
            return Err("the schema requires values that are nested too deeply or endlessly".to_owned());
        }
        let fields = match schema {
            Value::Object(fields) => fields,
            Value::Bool(true) => return Ok(self.word().into()),
            Value::Bool(false) => return Err("the schema allows no value at all".to_owned()),
            _ => return Err("a schema must be an object, true or false".to_owned()),
        };
        if let Some(keyword) = UNKNOWN.iter().find(|keyword| fields.contains_key(**keyword)) {
            return Err(format!("the keyword `{keyword}` is not simulated"));
        }
        if let Some(constant) = fields.get("const") {
            return Ok(constant.clone());
        }
        if let Some(reference) = fields.get("$ref") {
            let target = check::resolve(self.root, reference.as_str().unwrap_or_default())?.clone();
            return self.value(&beside(fields, "$ref", target)?, depth + 1);
        }
        if let Some(parts) = fields.get("allOf") {
            let merged =
                list(parts, "allOf")?.iter().try_fold(Value::Object(Map::new()), |merged, part| {
                    let part = match part.get("$ref").and_then(Value::as_str) {
                        Some(reference) if part.as_object().is_some_and(|part| part.len() == 1) => {
                            check::resolve(self.root, reference)?
                        }
                        _ => part,
                    };
                    merge::both(&merged, part)
                })?;
            return self.value(&beside(fields, "allOf", merged)?, depth + 1);
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(parts) = fields.get(keyword) {
                return self.one_of(fields, keyword, list(parts, keyword)?, depth);
            }
        }
        if let Some(choices) = fields.get("enum") {
            let fitting: Vec<&Value> = list(choices, "enum")?
                .iter()
                .filter(|value| check::has_type(value, fields.get("type")))
                .collect();
            return fitting
                .choose(self.random)
                .map(|value| (*value).clone())
                .ok_or_else(|| "`enum` has no value of the type".to_owned());
        }
        match self.kind(fields, depth)?.as_str() {
            "null" => Ok(Value::Null),
            "boolean" => Ok(self.random.random::<bool>().into()),
            "integer" => self.number(fields, true),
            "number" => self.number(fields, false),
            "string" => self.string(fields).map(Value::String),
            "array" => self.array(fields, depth),
            "object" => self.object(fields, depth),
            other => Err(format!("unknown type `{}`", other.chars().take(40).collect::<String>())),
        }
    }

    /// Generates a value for the first alternative for which this succeeds. At a deep level, alternatives without nesting are
    /// tried first.
    fn one_of(
        &mut self,
        fields: &Map<String, Value>,
        keyword: &str,
        parts: &[Value],
        depth: usize,
    ) -> Result<Value, String> {
        let mut order: Vec<&Value> = parts.iter().collect();
        if order.is_empty() {
            return Err(format!("`{keyword}` has no alternatives"));
        }
        let first = self.random.random_range(0..order.len());
        order.rotate_left(first);
        let ends = |part: &Value| !["$ref", "properties", "items"].iter().any(|key| part.get(*key).is_some());
        if depth >= SIMPLE_VALUES_DEPTH {
            order.sort_by_key(|part| !ends(part));
        } else {
            // `null` is tried last, because other values are more useful.
            order.sort_by_key(|part| part["type"] == "null");
        }
        let mut failure = String::new();
        for part in order {
            let value =
                beside(fields, keyword, part.clone()).and_then(|merged| self.value(&merged, depth + 1));
            match value {
                Ok(value) => return Ok(value),
                Err(why) => failure = why,
            }
        }
        Err(failure)
    }

    /// Returns the type to generate. If the schema names none, its keywords decide.
    fn kind(&mut self, fields: &Map<String, Value>, depth: usize) -> Result<String, String> {
        match fields.get("type") {
            Some(Value::String(kind)) => return Ok(kind.clone()),
            Some(Value::Array(kinds)) => {
                let kinds: Vec<&str> = kinds.iter().filter_map(Value::as_str).collect();
                if depth >= SIMPLE_VALUES_DEPTH && kinds.contains(&"null") {
                    return Ok("null".to_owned());
                }
                let kinds_but_null: Vec<&str> =
                    kinds.iter().copied().filter(|kind| *kind != "null").collect();
                let chosen = kinds_but_null.choose(self.random).or(kinds.first());
                return chosen
                    .map(|kind| (*kind).to_owned())
                    .ok_or_else(|| "`type` has no valid type".to_owned());
            }
            Some(_) => return Err("`type` must be a name or a list of names".to_owned()),
            None => {}
        }
        let has = |keys: &[&str]| keys.iter().any(|key| fields.contains_key(*key));
        Ok(if has(&["properties", "required", "additionalProperties", "minProperties", "maxProperties"]) {
            "object"
        } else if has(&["items", "prefixItems", "minItems", "maxItems", "uniqueItems"]) {
            "array"
        } else if has(&["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]) {
            "number"
        } else {
            "string"
        }
        .to_owned())
    }

    fn number(&mut self, fields: &Map<String, Value>, is_integer: bool) -> Result<Value, String> {
        let bound = |key: &str| fields.get(key).and_then(Value::as_f64);
        // Older schemas write an exclusive bound as a flag beside the bound.
        let flag = |key: &str| fields.get(key).and_then(Value::as_bool) == Some(true);
        let step = bound("multipleOf").unwrap_or(if is_integer { 1.0 } else { 0.01 });
        if step.is_nan() || step <= 0.0 {
            return Err("`multipleOf` must be over 0".to_owned());
        }
        // For whole numbers, a fractional step is rounded up. The final check refuses numbers that are not multiples of the
        // original step.
        let step = if is_integer && step.fract() != 0.0 { step.ceil() } else { step };
        let lowest = [
            bound("minimum")
                .map(|low| if flag("exclusiveMinimum") { after(low, step) } else { (low / step).ceil() }),
            bound("exclusiveMinimum").map(|low| after(low, step)),
        ];
        let highest = [
            bound("maximum").map(|high| {
                if flag("exclusiveMaximum") { before(high, step) } else { (high / step).floor() }
            }),
            bound("exclusiveMaximum").map(|high| before(high, step)),
        ];
        let low = lowest.into_iter().flatten().reduce(f64::max);
        let high = highest.into_iter().flatten().reduce(f64::min);
        let (low, high) = match (low, high) {
            (None, None) => (0.0, 100.0),
            (Some(low), None) => (low, low + 100.0),
            (None, Some(high)) => (high - 100.0, high),
            (Some(low), Some(high)) => (low, high),
        };
        if low > high || low.abs() > MAX_SAFE_INTEGER || high.abs() > MAX_SAFE_INTEGER {
            // Between close bounds, a number with more decimal places may match.
            let low = [bound("minimum"), bound("exclusiveMinimum")].into_iter().flatten().reduce(f64::max);
            let high = [bound("maximum"), bound("exclusiveMaximum")].into_iter().flatten().reduce(f64::min);
            let middle = low.zip(high).map_or(f64::NAN, |(low, high)| f64::midpoint(low, high));
            return match Number::from_f64(middle) {
                Some(number) if !is_integer && !fields.contains_key("multipleOf") => {
                    Ok(Value::Number(number))
                }
                _ => Err("no number is within the bounds, or the bounds are too large".to_owned()),
            };
        }
        let count = (low + (self.random.random_range(0.0..=1.0) * (high - low)).floor()).min(high);
        let number = count * step;
        #[expect(clippy::cast_possible_truncation, reason = "whole, and within 53 bits")]
        let value = if is_integer || (number.fract() == 0.0 && number.abs() <= MAX_SAFE_INTEGER) {
            Value::from(number as i64)
        } else {
            // 3 × 0.1 is not exactly 0.3, so the result is rounded. Six digits are enough for every step that people write.
            Value::from((number * 1e6).round() / 1e6)
        };
        Ok(value)
    }

    fn string(&mut self, fields: &Map<String, Value>) -> Result<String, String> {
        let least = size(fields, "minLength")?.unwrap_or(0);
        let most = size(fields, "maxLength")?;
        if let Some(pattern) = fields.get("pattern").and_then(Value::as_str) {
            // A text that matches the pattern is generated repeatedly until its length matches too.
            let mut text_or_reason = Err(String::new());
            for _ in 0..16 {
                text_or_reason = pattern::make_containing(pattern, self.random);
                if let Ok(text) = &text_or_reason
                    && (least..=most.unwrap_or(usize::MAX)).contains(&text.chars().count())
                {
                    return text_or_reason;
                }
            }
            return text_or_reason
                .and_then(|_| Err("a pattern beside this length is not simulated".to_owned()));
        }
        let mut text = match fields.get("format").and_then(Value::as_str) {
            Some(format) => self.formatted(format),
            None => self.word(),
        };
        while text.chars().count() < least {
            text.push(' ');
            text += &self.word();
        }
        Ok(match most {
            Some(most) => text.chars().take(most).collect(),
            None => text,
        })
    }

    fn formatted(&mut self, format: &str) -> String {
        let (a, b): (u8, u8) = (self.random.random_range(1..=28), self.random.random_range(0..=59));
        match format {
            "date-time" => format!("2025-01-{a:02}T12:{b:02}:00Z"),
            "date" => format!("2025-01-{a:02}"),
            "time" => format!("12:{b:02}:00Z"),
            "duration" => format!("PT{a}M"),
            "email" | "idn-email" => format!("person{a}@example.com"),
            "hostname" | "idn-hostname" => format!("host{a}.example.com"),
            "ipv4" => format!("192.0.2.{a}"),
            "ipv6" => format!("2001:db8::{a:x}"),
            "uuid" => format!("00000000-0000-4000-8000-0000000000{a:02x}"),
            "uri" | "iri" | "uri-reference" | "iri-reference" => format!("https://example.com/{a}"),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> String {
        const WORDS: [&str; 8] = ["harbour", "tide", "river", "light", "voyage", "wind", "stone", "course"];
        WORDS.choose(self.random).copied().unwrap_or_default().to_owned()
    }

    fn array(&mut self, fields: &Map<String, Value>, depth: usize) -> Result<Value, String> {
        let least = size(fields, "minItems")?.unwrap_or(0);
        let most = size(fields, "maxItems")?.unwrap_or(usize::MAX);
        let (first, rest) = check::item_schemas(fields);
        let mut items: Vec<Value> = Vec::new();
        for schema in first.iter().take(most) {
            items.push(self.value(schema, depth + 1)?);
        }
        let any = Value::Bool(true);
        let rest = rest.unwrap_or(&any);
        let length = if *rest == Value::Bool(false) {
            least
        } else {
            least
                .max(if depth >= SIMPLE_VALUES_DEPTH || !first.is_empty() {
                    0
                } else {
                    self.random.random_range(1..=EXTRA)
                })
                .min(most)
        };
        let unique = fields.get("uniqueItems") == Some(&Value::Bool(true));
        let mut misses = 0;
        while items.len() < length {
            match self.value(rest, depth + 1) {
                Ok(item) if unique && items.contains(&item) && misses < MAX_LENGTH => misses += 1,
                Ok(item) if unique && items.contains(&item) && items.len() >= least => {
                    drop(item);
                    break;
                }
                Ok(item) => items.push(item),
                // These items are optional.
                Err(_) if items.len() >= least => break,
                Err(why) => return Err(why),
            }
        }
        Ok(Value::Array(items))
    }

    fn object(&mut self, fields: &Map<String, Value>, depth: usize) -> Result<Value, String> {
        let none = Map::new();
        let known = fields.get("properties").and_then(Value::as_object).unwrap_or(&none);
        let required: Vec<&str> = match fields.get("required") {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let least = size(fields, "minProperties")?.unwrap_or(0);
        let most = size(fields, "maxProperties")?.unwrap_or(usize::MAX);
        let any = Value::Bool(true);
        let further = fields.get("additionalProperties").unwrap_or(&any);
        let mut object = Map::new();
        for name in &required {
            let value = self.value(known.get(*name).unwrap_or(further), depth + 1)?;
            object.insert((*name).to_owned(), value);
        }
        for (name, schema) in known.iter().filter(|(name, _)| !required.contains(&name.as_str())) {
            let is_included =
                object.len() < least || (depth < SIMPLE_VALUES_DEPTH && self.random.random_bool(0.75));
            if is_included
                && object.len() < most
                && let Ok(value) = self.value(schema, depth + 1)
            {
                object.insert(name.clone(), value);
            }
        }
        let mut number = 0;
        while object.len() < least {
            number += 1;
            let value = self.value(further, depth + 1)?;
            object.insert(format!("field{number}"), value);
        }
        Ok(Value::Object(object))
    }
}

/// Returns the first multiple of `step` above `low`, as a number of steps.
fn after(low: f64, step: f64) -> f64 {
    (low / step).floor() + 1.0
}

/// Returns the last multiple of `step` below `high`, as a number of steps.
fn before(high: f64, step: f64) -> f64 {
    (high / step).ceil() - 1.0
}

/// Returns the schema without a keyword, merged with the schema that the keyword stands for.
fn beside(fields: &Map<String, Value>, keyword: &str, other: Value) -> Result<Value, String> {
    // Definitions are resolved from the root. Copying them at each reference would be expensive.
    let rest = fields.iter().filter(|(key, _)| ![keyword, "$defs", "definitions"].contains(&key.as_str()));
    let rest: Map<String, Value> = rest.map(|(key, value)| (key.clone(), value.clone())).collect();
    if rest.is_empty() { Ok(other) } else { merge::both(&Value::Object(rest), &other) }
}

fn list<'v>(value: &'v Value, keyword: &str) -> Result<&'v [Value], String> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| format!("`{keyword}` must be a list"))
}

/// Reads a length or count of a schema. A large minimum is refused, because its value would take too long to generate.
fn size(fields: &Map<String, Value>, keyword: &str) -> Result<Option<usize>, String> {
    let Some(value) = fields.get(keyword) else { return Ok(None) };
    let number = value.as_u64().or_else(|| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and not below 0")]
        value.as_f64().filter(|number| *number >= 0.0 && number.fract() == 0.0).map(|number| number as u64)
    });
    let number = number.ok_or_else(|| format!("`{keyword}` must be a whole number of at least 0"))?;
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    if keyword.starts_with("min") && number > MAX_LENGTH {
        return Err(format!("`{keyword}` is {number}, but the simulator supports at most {MAX_LENGTH}"));
    }
    Ok(Some(number))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use serde_json::json;

    use super::*;

    fn generated(schema: &Value, seed: u64) -> Result<Value, String> {
        make(schema, &mut StdRng::seed_from_u64(seed))
    }

    #[test]
    fn values_fit_schemas_as_people_write_them() {
        for schema in [
            json!({"type": "object", "properties": {
                "city": {"type": "string", "minLength": 3, "maxLength": 5},
                "unit": {"enum": ["celsius", "fahrenheit"]},
                "days": {"type": "integer", "minimum": 1, "maximum": 7},
                "share": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.001},
                "price": {"type": "number", "minimum": 0, "multipleOf": 0.1},
                "zip": {"type": "string", "pattern": "^[0-9]{5}$"},
                "at": {"type": "string", "format": "date-time"},
                "tags": {"type": "array", "items": {"type": "string"}, "minItems": 3, "uniqueItems": true},
                "pair": {"type": "array", "prefixItems": [{"type": "integer"}, {"const": "x"}], "items": false},
                "maybe": {"type": ["string", "null"]},
             }, "required": ["city", "unit", "days", "share", "price", "zip", "at", "tags", "pair", "maybe"],
             "additionalProperties": false}),
            json!({"$defs": {"Node": {"type": "object", "properties": {
                "value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}},
                "required": ["value", "next"]}}, "$ref": "#/$defs/Node"}),
            json!({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                             {"properties": {"a": {"minimum": 5}, "b": {"type": "boolean"}}, "required": ["b"]}]}),
            json!({"oneOf": [{"type": "integer", "minimum": 10}, {"type": "string", "maxLength": 2}]}),
            json!({"type": "object", "minProperties": 3, "additionalProperties": {"type": "integer"}}),
            json!(true),
            json!({}),
            json!({"type": "integer", "exclusiveMinimum": -3, "maximum": -2}),
        ] {
            for seed in 0..20 {
                let value = generated(&schema, seed).unwrap_or_else(|why| panic!("{schema}: {why}"));
                assert_eq!(check::fits(&schema, &value), Ok(true), "{schema} {value}");
            }
        }
    }

    #[test]
    fn unsupported_schemas_are_refused_by_keyword() {
        for (schema, word) in [
            (json!({"not": {"type": "string"}}), "`not`"),
            (json!({"type": "object", "patternProperties": {"^x": {}}}), "`patternProperties`"),
            (json!({"$ref": "https://example.com/schema"}), "https://example.com/schema"),
            (json!({"$ref": "#/$defs/none"}), "#/$defs/none"),
            (json!({"$ref": "#"}), "endlessly"),
            (json!({"type": "string", "minLength": 1_000_000}), "minLength"),
            (json!({"type": "integer", "minimum": 3, "maximum": 2}), "bounds"),
            (json!({"type": "thing"}), "thing"),
            (json!(false), "no value"),
            (json!({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]}), "endlessly"),
        ] {
            let why = generated(&schema, 1).unwrap_err();
            assert!(why.contains(word), "{schema}: {why}");
        }
    }

    #[test]
    fn schemas_that_grow_without_end_are_refused_in_a_bounded_number_of_steps() {
        let mut defs = Map::new();
        for level in 0..20 {
            let next = json!({"$ref": format!("#/$defs/n{}", level + 1)});
            let node =
                json!({"type": "object", "properties": {"a": next, "b": next}, "required": ["a", "b"]});
            defs.insert(format!("n{level}"), node);
        }
        defs.insert("n20".to_owned(), json!({"type": "integer"}));
        let schema = json!({"$defs": defs, "$ref": "#/$defs/n0"});
        assert!(generated(&schema, 1).unwrap_err().contains("too large"));
    }
}
