//! Limits of schemas and grammars, which hold before `llguidance` compiles them.
//!
//! It follows references and rules with recursive functions, so that its stack grows with them, and some of its steps take a time
//! that grows with the square of their input.

use std::collections::BTreeSet;

use serde_json::{Deserializer, Value};

/// Values of a schema, or rules and groups of a grammar.
const MAX_PARTS: usize = 10_000;
/// Stack of a thread that compiles. A chain of references takes up to 5 KiB for each part; only what is used takes memory.
pub(super) const STACK_BYTES: usize = MAX_PARTS * (8 << 10);
/// Bytes of a grammar, of a regular expression, of all choices, or of the names and texts in a schema. The most expensive
/// expressions (`\p{L}`) take 20 µs for each.
const MAX_TEXT_BYTES: usize = 256 << 10;
/// Properties of all objects. If one object has them all, it takes 2.5 s.
const MAX_PROPERTIES: usize = 5000;
/// Patterns for the names of properties. Each is compared with each other, which takes up to 0.1 ms.
const MAX_PROPERTY_PATTERNS: usize = 64;

/// All `multipleOf`, each without its decimal point: `0.25` counts as 25. A state for each takes 20 µs.
const MAX_MULTIPLES: u64 = 100_000;

/// Different patterns, if one text may have to match several of them: the library looks whether any text can, which takes twice as
/// long for each. Twelve take 10 ms, 20 take 4.5 s.
const MAX_JOINED_PATTERNS: usize = 12;

/// Texts that explain a schema and do not restrict values.
const EXPLANATIONS: [&str; 3] = ["$comment", "description", "title"];
/// What else stands beside a reference and restricts nothing.
const ANNOTATIONS: [&str; 7] =
    ["$defs", "default", "definitions", "deprecated", "discriminator", "examples", "readOnly"];

/// The size of one or more schemas.
#[derive(Default)]
struct Size<'a> {
    parts: usize,
    text: usize,
    properties: usize,
    property_patterns: usize,
    patterns: BTreeSet<&'a str>,
    multiples: Vec<f64>,
    /// Whether a value must match several schemas.
    joins: bool,
}

/// Refuses schemas that take too long together, or a stack that no thread has.
pub(super) fn check_schemas<'a>(schemas: impl IntoIterator<Item = &'a Value>) -> Result<(), String> {
    let mut size = Size::default();
    for schema in schemas {
        size.add(schema)?;
    }
    check("values", size.parts, MAX_PARTS)?;
    check("bytes of names and texts", size.text, MAX_TEXT_BYTES)?;
    check("properties", size.properties, MAX_PROPERTIES)?;
    check("patternProperties", size.property_patterns, MAX_PROPERTY_PATTERNS)?;
    if size.joins {
        check("patterns beside allOf or a joined reference", size.patterns.len(), MAX_JOINED_PATTERNS)?;
    }
    check_multiples(&size.multiples, size.joins)
}

/// Refuses multiples with too many states, and those whose common multiple the library cannot compute: it multiplies two numbers of
/// 32 bits, at the same number of decimals, before it divides.
fn check_multiples(multiples: &[f64], joins: bool) -> Result<(), String> {
    let (mut sum, mut decimals) = (0_u64, 0);
    for multiple in multiples {
        let (digits, own) = without_point(*multiple);
        sum = sum.saturating_add(digits);
        decimals = own.max(decimals);
    }
    if sum > MAX_MULTIPLES {
        return Err(format!(
            "too large: the digits of all multipleOf make {sum}, at most {MAX_MULTIPLES} are supported"
        ));
    }
    if joins {
        let (mut common, mut largest) = (1_u128, 0);
        for multiple in multiples {
            let (digits, own) = without_point(*multiple);
            let value = 10_u128.checked_pow(decimals - own).and_then(|ten| ten.checked_mul(digits.into()));
            // At most 32 bits so far, and at most 17 digits and their decimals.
            common = value.map_or(u128::MAX, |value| common.saturating_mul(value / gcd(common, value)));
            largest = largest.max(value.unwrap_or(u128::MAX));
            if common.saturating_mul(largest) > u32::MAX.into() {
                return Err("too large: the values of multipleOf have no common multiple of 32 bits".into());
            }
        }
    }
    Ok(())
}

/// Returns the digits of a number without its decimal point, and the number of decimals.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, and is whole and positive"
)]
fn without_point(mut number: f64) -> (u64, u32) {
    let mut decimals = 0;
    while number.fract() != 0.0 {
        number *= 10.0;
        decimals += 1;
    }
    (number as u64, decimals)
}

fn gcd(left: u128, right: u128) -> u128 {
    if right == 0 { left } else { gcd(right, left % right) }
}

/// Refuses a grammar in Lark's notation that takes too long, or a stack that no thread has.
pub(super) fn check_grammar(lark: &str) -> Result<(), String> {
    check_text(lark.len())?;
    // More of these may be in texts. What is not JSON fails later.
    let schemas = lark.match_indices("%json").map(|(at, word)| &lark[at + word.len()..]);
    let schemas: Vec<Value> =
        schemas.filter_map(|rest| Deserializer::from_str(rest).into_iter().next()?.ok()).collect();
    check_schemas(&schemas)?;
    // A rule and a member of a JSON object have a colon, and all else that nests has a bracket.
    check("rules and groups", lark.matches([':', '(', '[']).count(), MAX_PARTS)
}

pub(super) fn check_text(bytes: usize) -> Result<(), String> {
    check("bytes", bytes, MAX_TEXT_BYTES)
}

fn check(what: &str, number: usize, most: usize) -> Result<(), String> {
    if number <= most {
        Ok(())
    } else {
        Err(format!("too large: {number} {what}, at most {most} are supported"))
    }
}

impl<'a> Size<'a> {
    /// The recursion ends because the parser of JSON limits the depth.
    fn add(&mut self, value: &'a Value) -> Result<(), String> {
        self.parts += 1;
        match value {
            Value::Object(map) => {
                let others = map.keys().filter(|name| {
                    !EXPLANATIONS.contains(&name.as_str()) && !ANNOTATIONS.contains(&name.as_str())
                });
                let has = |name: &&str| map.contains_key(*name);
                self.joins |=
                    has(&"allOf") || (["$ref", "anyOf", "oneOf"].iter().any(has) && others.count() > 1);
                for (name, inner) in map {
                    self.text += name.len();
                    match (name.as_str(), inner) {
                        ("properties", Value::Object(inner)) => self.properties += inner.len(),
                        ("patternProperties", Value::Object(inner)) => {
                            self.property_patterns += inner.len();
                            self.patterns.extend(inner.keys().map(String::as_str));
                        }
                        ("pattern", Value::String(pattern)) => {
                            self.patterns.insert(pattern);
                        }
                        ("multipleOf", Value::Number(number)) => {
                            let number = number.as_f64().map(f64::abs);
                            self.multiples
                                .extend(number.filter(|number| *number > 0.0 && number.is_finite()));
                        }
                        (name, Value::String(_)) if EXPLANATIONS.contains(&name) => continue,
                        _ => {}
                    }
                    self.add(inner)?;
                }
            }
            Value::Array(items) => items.iter().try_for_each(|item| self.add(item))?,
            Value::String(text) => self.text += text.len(),
            // `llguidance` turns integers around zero, which this one and lower ones do not survive.
            Value::Number(number) if number.as_f64().is_some_and(|number| number <= -2f64.powi(63)) => {
                return Err(format!("the number {number} is below those of 64 bits"));
            }
            Value::Number(_) | Value::Bool(_) | Value::Null => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use longboat_serving::Shape;
    use serde_json::{Map, json};

    use super::*;
    use crate::shape::{Form, Vocabulary};

    /// Makes a schema that has the next one in it.
    type Link = fn(Value) -> Value;
    /// Makes a rule that has the next one in it.
    type Rule = fn(usize) -> String;

    #[test]
    fn only_what_restricts_values_counts() {
        let explained = json!({"description": "a".repeat(MAX_TEXT_BYTES + 1), "type": "string"});
        assert_eq!(check_schemas([&explained]), Ok(()));
        let long = json!({"enum": ["a".repeat(MAX_TEXT_BYTES)]});
        assert!(
            check_schemas([&long])
                .unwrap_err()
                .ends_with("bytes of names and texts, at most 262144 are supported")
        );
        let many = |name: &str, number: usize| {
            let names: Map<String, Value> = (0..number).map(|name| (name.to_string(), true.into())).collect();
            json!({name: names})
        };
        for (name, most) in [("properties", MAX_PROPERTIES), ("patternProperties", MAX_PROPERTY_PATTERNS)] {
            assert_eq!(check_schemas([&many(name, most)]), Ok(()));
            let reason = format!("too large: {} {name}, at most {most} are supported", most + 1);
            assert_eq!(check_schemas([&many(name, most), &many(name, 1)]), Err(reason.clone()));
            assert_eq!(check_grammar(&format!("start: %json {}", many(name, most + 1))), Err(reason));
        }
    }

    #[test]
    fn multiples_that_take_too_long_or_overflow_are_refused() {
        let multiple = |number: f64| json!({"multipleOf": number});
        for fine in [
            json!({"properties": {"a": multiple(99_999.0)}}),
            json!({"properties": {"a": multiple(0.01), "b": multiple(1000.0)}}),
            json!({"allOf": [multiple(0.5), multiple(5.0), multiple(100.0)]}),
            json!({"allOf": [multiple(0.0), multiple(7.0)]}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": multiple(50_000.0), "b": multiple(49_999.0)}}),
        ] {
            assert_eq!(check_schemas([&fine]), Ok(()), "{fine}");
        }
        let many = "too large: the digits of all multipleOf make 100001, at most 100000 are supported";
        let split = json!({"properties": {"a": multiple(50_000.0), "b": multiple(5000.1)}});
        assert_eq!(check_schemas([&split]).unwrap_err(), many);
        for overflowing in [
            json!({"allOf": [multiple(40_000.0), multiple(59_999.0), multiple(7.0)]}),
            json!({"allOf": [multiple(49_999.0), multiple(0.00001)]}),
            json!({"multipleOf": 65_537, "anyOf": [multiple(9973.0)]}),
            json!({"allOf": [multiple(7.0), multiple(2f64.powi(-300))]}),
        ] {
            let error = check_schemas([&overflowing]).unwrap_err();
            assert!(error.starts_with("too large: "), "{overflowing}: {error}");
        }
    }

    #[test]
    fn many_patterns_that_one_text_must_match_are_refused() {
        let patterns = |number: usize| -> Vec<Value> {
            (0..number).map(|number| json!({"pattern": format!("[a-z]*{number}[a-z]*")})).collect()
        };
        let most = MAX_JOINED_PATTERNS;
        let reason = format!(
            "too large: {} patterns beside allOf or a joined reference, at most {most} are supported",
            most + 1
        );
        let referenced = |other: &str| json!({"$ref": "#/$defs/a", other: {}, "$defs": {"a": {"prefixItems": patterns(most + 1)}}});
        assert_eq!(check_schemas([&json!({"allOf": patterns(most)})]), Ok(()));
        assert_eq!(check_schemas([&json!({"allOf": patterns(most + 1)})]), Err(reason.clone()));
        assert_eq!(check_schemas([&referenced("items")]), Err(reason));
        for apart in [referenced("default"), json!({"anyOf": patterns(most + 1)})] {
            assert_eq!(check_schemas([&apart]), Ok(()), "{apart}");
        }
    }

    /// A schema of definitions, each of which has the next in it, and the last is a number.
    fn chain(length: usize, link: Link) -> Shape {
        let next = |number| json!({"$ref": format!("#/$defs/d{number}")});
        let mut all: Map<String, Value> =
            (0..length).map(|number| (format!("d{number}"), link(next(number + 1)))).collect();
        all.insert(format!("d{length}"), json!({"type": "integer"}));
        let mut schema = next(0);
        schema["$defs"] = all.into();
        Shape::Json(schema)
    }

    #[test]
    fn long_chains_of_references_and_rules_are_followed_or_refused() {
        // Each with the number of parts for one link.
        let links: [(usize, Link); 6] = [
            (2, |next| next),
            (4, |next| json!({"type": "array", "items": next})),
            (6, |next| json!({"anyOf": [next, {"type": "null"}]})),
            (4, |next| json!({"allOf": [next]})),
            (4, |next| json!({"properties": {"a": next}})),
            (52, |next| (0..50).fold(next, |inner, _| json!({"items": inner}))),
        ];
        let grammars: [(usize, Rule, &str); 4] = [
            (1, |number| format!("T{number}: T{} \"a\"", number + 1), "start: T0\nT"),
            (1, |number| format!("r{number}: r{0} r{0} | \"a\"", number + 1), "start: r0\nr"),
            (3, |number| format!("r{number}: ((r{} \"a\"))", number + 1), "start: r0\nr"),
            (1, |number| format!("r{number} ::= r{} \"a\"", number + 1), "root ::= r0\nr"),
        ];
        let shapes = |parts: usize| {
            let schemas = links.iter().map(move |(each, link)| chain(parts / each, *link));
            let grammars = grammars.iter().map(move |(each, rule, start)| {
                let length = parts / each;
                let rules: Vec<String> = (0..length).map(rule).collect();
                let sign = if start.contains("::=") { "::=" } else { ":" };
                Shape::Grammar(format!("{start}{length} {sign} \"x\"\n{}", rules.join("\n")))
            });
            schemas.chain(grammars)
        };
        let letters = (0..=u8::MAX).map(|byte| vec![byte]).chain([Vec::new()]).collect();
        let letters = Vocabulary::new(letters, [256].into_iter()).unwrap();
        for (kind, shape) in shapes(9_900).enumerate() {
            let form = Form::new(&shape, &letters);
            let form = form.map(|mut form| form.restrict(&mut [0.0; 257]).is_ok());
            // The library has limits, too, which it checks on the way.
            let is_refused =
                form.as_ref().is_err_and(|error| error.contains("too large") || error.contains("too big"));
            assert!(is_refused || form == Ok(true), "{kind}: {form:?}");
        }
        for (kind, shape) in shapes(11_000).enumerate() {
            let error = Form::new(&shape, &letters).map(drop).unwrap_err();
            assert!(error.starts_with("Grammar error: too large: "), "{kind}: {error}");
        }
    }
}
