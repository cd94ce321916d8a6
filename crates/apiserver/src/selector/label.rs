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

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Comma,
    Open,
    Close,
    Equal,
    DoubleEqual,
    NotEqual,
    Not,
    Above,
    Below,
    End,
}

const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

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

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

// === impl Parser ===

impl Parser {
    fn peek(&self) -> Token {
        self.tokens.get(self.at).cloned().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn parse(mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::Word(_) | Token::Not => {
                    let requirement = self
                        .requirement()
                        .map_err(|error| format!("unable to parse requirement: {error}"))?;
                    requirements.push(requirement);
                    match self.next() {
                        Token::End => return Ok(requirements),
                        Token::Comma => match self.peek() {
                            Token::Word(_) | Token::Not => {}
                            other => {
                                return Err(format!(
                                    "found '{}', expected: identifier after ','",
                                    other.text()
                                ));
                            }
                        },
                        other => {
                            return Err(format!(
                                "found '{}', expected: ',' or 'end of string'",
                                other.text()
                            ));
                        }
                    }
                }
                Token::End => return Ok(requirements),
                other => {
                    return Err(format!(
                        "found '{}', expected: !, identifier, or 'end of string'",
                        other.text()
                    ));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let negated = self.peek() == Token::Not;
        if negated {
            self.at += 1;
        }
        let key = match self.next() {
            Token::Word(word) => word,
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        let problems = crate::strategy::names::qualified_name_problems(&key);
        if !problems.is_empty() {
            let why = problems.join("; ");
            return Err(format!("<nil>: Invalid value: {key:?}: {why}"));
        }
        if negated {
            return Ok(Requirement { key, operator: Operator::Missing });
        }
        if matches!(self.peek(), Token::End | Token::Comma) {
            return Ok(Requirement { key, operator: Operator::Exists });
        }
        let operator = match self.next() {
            Token::Word(word) if word == "in" => Operator::In(self.values()?),
            Token::Word(word) if word == "notin" => Operator::NotIn(self.values()?),
            Token::Equal | Token::DoubleEqual => Operator::In(vec![self.value()?]),
            Token::NotEqual => Operator::NotIn(vec![self.value()?]),
            sign @ (Token::Above | Token::Below) => {
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
                if sign == Token::Above { Operator::Above(bound) } else { Operator::Below(bound) }
            }
            other => return Err(format!("found '{}', expected: {OPERATORS}", other.text())),
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
            Token::Word(word) => {
                self.at += 1;
                Ok(word)
            }
            Token::End | Token::Comma => Ok(String::new()),
            other => Err(format!("found '{}', expected: identifier", other.text())),
        }
    }

    fn values(&mut self) -> Result<Vec<String>, String> {
        match self.next() {
            Token::Open => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        let mut values = Vec::new();
        loop {
            match self.next() {
                Token::Word(word) => {
                    values.push(word);
                    match self.next() {
                        Token::Comma => {
                            if self.peek() == Token::Close {
                                self.at += 1;
                                values.push(String::new());
                                break;
                            }
                        }
                        Token::Close => break,
                        other => {
                            return Err(format!("found '{}', expected: ',' or ')'", other.text()));
                        }
                    }
                }
                Token::Comma => {
                    values.push(String::new());
                    if self.peek() == Token::Close {
                        self.at += 1;
                        values.push(String::new());
                        break;
                    }
                }
                Token::Close if values.is_empty() => {
                    values.push(String::new());
                    break;
                }
                other => {
                    return Err(format!("found '{}', expected: ',', ')' or identifier", other.text()));
                }
            }
        }
        values.sort();
        values.dedup();
        Ok(values)
    }
}

// === impl Token ===

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::Comma => ",",
            Self::Open => "(",
            Self::Close => ")",
            Self::Equal => "=",
            Self::DoubleEqual => "==",
            Self::NotEqual => "!=",
            Self::Not => "!",
            Self::Above => ">",
            Self::Below => "<",
            Self::End => "",
        }
    }
}

/// Why a value of a requirement is no value of a label.
fn value_problem(key: &str, index: usize, value: &str) -> Option<String> {
    let why = crate::strategy::names::label_value_problem(value)?;
    Some(format!("values[{index}][{key}]: Invalid value: {value:?}: {why}"))
}

/// Refuses a requirement for all that is wrong with it.
fn refuse(wrong: &[String]) -> Result<(), String> {
    match wrong {
        [] => Ok(()),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

fn lex(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let next = chars.get(at + 1).copied();
        let (token, length) = match (c, next) {
            (c, _) if c.is_whitespace() => {
                at += 1;
                continue;
            }
            (',', _) => (Token::Comma, 1),
            ('(', _) => (Token::Open, 1),
            (')', _) => (Token::Close, 1),
            ('=', Some('=')) => (Token::DoubleEqual, 2),
            ('=', _) => (Token::Equal, 1),
            ('!', Some('=')) => (Token::NotEqual, 2),
            ('!', _) => (Token::Not, 1),
            ('>', _) => (Token::Above, 1),
            ('<', _) => (Token::Below, 1),
            _ => {
                let word: String = chars[at..]
                    .iter()
                    .take_while(|c| !c.is_whitespace() && !",()=!><".contains(**c))
                    .collect();
                let length = word.chars().count();
                (Token::Word(word), length)
            }
        };
        tokens.push(token);
        at += length;
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
