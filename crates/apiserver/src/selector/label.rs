//! `labelSelector=app in (a,b),!old`.

use serde_json::Value;

/// Requirements that must all hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operator {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Missing,
    Above(i64),
    Below(i64),
}

const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";
/// The characters of which signs consist. A word has none of them.
const SIGNS: [char; 7] = [',', '(', ')', '=', '!', '>', '<'];

// === impl LabelSelector ===

impl LabelSelector {
    /// Parses a selector. Errors have the wording of kube-apiserver.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        Parser { tokens: lex(text), at: 0 }.parse().map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn matches(&self, labels: &Value) -> bool {
        self.0.iter().all(|requirement| {
            let label = labels.get(&requirement.key).and_then(Value::as_str);
            let number = || label.and_then(|l| l.parse::<i64>().ok());
            match &requirement.operator {
                Operator::In(values) => label.is_some_and(|l| values.iter().any(|v| v == l)),
                Operator::NotIn(values) => !label.is_some_and(|l| values.iter().any(|v| v == l)),
                Operator::Exists => label.is_some(),
                Operator::Missing => label.is_none(),
                Operator::Above(bound) => number().is_some_and(|n| n > *bound),
                Operator::Below(bound) => number().is_some_and(|n| n < *bound),
            }
        })
    }
}

/// The words and signs of a selector.
struct Parser<'a> {
    tokens: Vec<&'a str>,
    at: usize,
}

// === impl Parser ===

impl<'a> Parser<'a> {
    /// The next token; empty at the end of the selector.
    fn peek(&self) -> &'a str {
        self.tokens.get(self.at).copied().unwrap_or_default()
    }

    fn next(&mut self) -> &'a str {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn parse(mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                "" => return Ok(requirements),
                token if token == "!" || is_word(token) => {}
                other => return Err(format!("found '{other}', expected: !, identifier, or 'end of string'")),
            }
            let requirement = self.requirement();
            requirements.push(requirement.map_err(|error| format!("unable to parse requirement: {error}"))?);
            match (self.next(), self.peek()) {
                ("", _) => return Ok(requirements),
                (",", after) if after == "!" || is_word(after) => {}
                (",", other) => return Err(format!("found '{other}', expected: identifier after ','")),
                (other, _) => return Err(format!("found '{other}', expected: ',' or 'end of string'")),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let negated = self.peek() == "!";
        if negated {
            self.at += 1;
        }
        let key = match self.next() {
            word if is_word(word) => word.to_owned(),
            other => return Err(format!("found '{other}', expected: identifier")),
        };
        let problems = crate::strategy::names::qualified_name_problems(&key);
        if !problems.is_empty() {
            let why = problems.join("; ");
            return Err(format!("<nil>: Invalid value: {key:?}: {why}"));
        }
        if negated {
            return Ok(Requirement { key, operator: Operator::Missing });
        }
        if matches!(self.peek(), "" | ",") {
            return Ok(Requirement { key, operator: Operator::Exists });
        }
        let operator = match self.next() {
            "in" => Operator::In(self.values()?),
            "notin" => Operator::NotIn(self.values()?),
            "=" | "==" => Operator::In(vec![self.value()?]),
            "!=" => Operator::NotIn(vec![self.value()?]),
            sign @ (">" | "<") => {
                let text = self.value()?;
                let bound = text.parse::<i64>();
                let mut wrong = Vec::new();
                if bound.is_err() {
                    wrong.push(format!(
                        "values[0]: Invalid value: {text:?}: for 'Gt', 'Lt' operators, the value must be an integer"
                    ));
                }
                wrong.extend(value_problem(&key, 0, &text));
                refuse(&wrong)?;
                let bound = bound.unwrap_or_default();
                if sign == ">" { Operator::Above(bound) } else { Operator::Below(bound) }
            }
            other => return Err(format!("found '{other}', expected: {OPERATORS}")),
        };
        if let Operator::In(values) | Operator::NotIn(values) = &operator {
            let wrong: Vec<String> = values
                .iter()
                .enumerate()
                .filter_map(|(index, value)| value_problem(&key, index, value))
                .collect();
            refuse(&wrong)?;
        }
        Ok(Requirement { key, operator })
    }

    fn value(&mut self) -> Result<String, String> {
        match self.peek() {
            "" | "," => Ok(String::new()),
            word if is_word(word) => Ok(self.next().to_owned()),
            other => Err(format!("found '{other}', expected: identifier")),
        }
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        match self.next() {
            "(" => {}
            other => return Err(format!("found '{other}' expected: '('")),
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                word if is_word(word) => {
                    values.push(word.to_owned());
                    match self.next() {
                        "," => {}
                        ")" => break,
                        other => return Err(format!("found '{other}', expected: ',' or ')'")),
                    }
                }
                "," => values.push(String::new()),
                ")" if values.is_empty() => {
                    values.push(String::new());
                    break;
                }
                other => return Err(format!("found '{other}', expected: ',', ')' or identifier")),
            }
            // A comma is also followed by a value, which may be empty.
            if self.peek() == ")" {
                self.at += 1;
                values.push(String::new());
                break;
            }
        }
        values.sort();
        values.dedup();
        Ok(values)
    }
}

/// Whether a token is neither a sign nor the end.
fn is_word(token: &str) -> bool {
    !token.is_empty() && !token.starts_with(SIGNS)
}

/// Returns the error for a requirement's value that is not a valid label value.
fn value_problem(key: &str, index: usize, value: &str) -> Option<String> {
    let why = crate::strategy::names::label_value_problem(value)?;
    Some(format!("values[{index}][{key}]: Invalid value: {value:?}: {why}"))
}

/// Returns an error with all problems of a requirement, if there are any.
fn refuse(wrong: &[String]) -> Result<(), String> {
    match wrong {
        [] => Ok(()),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

/// Splits a selector into its words and signs.
fn lex(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let ends = |c: char| c.is_whitespace() || SIGNS.contains(&c);
        let length = match rest.as_bytes() {
            [b'=' | b'!', b'=', ..] => 2,
            _ if rest.starts_with(SIGNS) => 1,
            _ => rest.find(ends).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after.trim_start();
    }
    tokens
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_requirement_is_refused_for_all_its_values() {
        let refused = |selector| LabelSelector::parse(selector).unwrap_err();
        let text = refused("a>-");
        assert!(
            text.starts_with("unable to parse requirement: [values[0]: Invalid value: \"-\": for"),
            "{text}"
        );
        assert!(text.contains("integer, values[0][a]: Invalid value: \"-\": a valid label"), "{text}");
        assert!(refused("a in (-,b,-c)").contains("values[1]"), "{}", refused("a in (-,b,-c)"));
        let one = "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer";
        assert_eq!(refused("a>b"), one);
    }

    #[test]
    fn every_operator_selects_what_it_says() {
        let labels = json!({"app": "x", "tier": "3"});
        for (selector, expected) in [
            ("app=x", true),
            ("app == y", false),
            ("app!=y,tier", true),
            ("app in (x, z)", true),
            ("app notin (x)", false),
            ("!none", true),
            ("tier>2", true),
            ("tier<3", false),
            ("none in ()", false),
            ("", true),
        ] {
            assert_eq!(LabelSelector::parse(selector).unwrap().matches(&labels), expected, "{selector}");
        }
    }
}
