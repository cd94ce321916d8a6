//! Parses queries.

use std::time::Duration;

use regex::RegexBuilder;

use super::{Aggregation, Expression, Grouping, Matcher, Operator, QueryError, Selector, Value};

/// The deepest nesting of a query. Parsing is recursive.
pub(super) const MAX_DEPTH: usize = 32;
/// The longest query in bytes.
pub(super) const MAX_LENGTH: usize = 8 * 1024;
/// The most operands of a query. Each operator is one level of the tree, over which evaluation is recursive.
const MAX_OPERANDS: usize = 256;
/// The most memory of a regular expression, and the most regular expressions.
const MAX_REGEX: usize = 1 << 20;
const MAX_REGEXES: usize = 16;

pub(super) fn query(text: &str) -> Result<Expression, QueryError> {
    if text.len() > MAX_LENGTH {
        return Err(QueryError::TooLarge);
    }
    let mut parser = Parser { text, at: 0, depth: 0, operands: 0, regexes: 0 };
    let expression = parser.expression()?;
    parser.skip();
    if parser.at < text.len() {
        return Err(parser.expected("an operator or the end"));
    }
    Ok(expression)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    operands: usize,
    regexes: usize,
}

// === impl Parser ===

impl<'a> Parser<'a> {
    fn expected(&self, expected: &'static str) -> QueryError {
        QueryError::Syntax { at: self.text[..self.at].chars().count() + 1, expected }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// Consumes this text, if it comes next.
    fn consume(&mut self, token: &str) -> bool {
        self.skip();
        let is_next = self.rest().starts_with(token);
        if is_next {
            self.at += token.len();
        }
        is_next
    }

    fn need(&mut self, token: &str, expected: &'static str) -> Result<(), QueryError> {
        if self.consume(token) { Ok(()) } else { Err(self.expected(expected)) }
    }

    /// Consumes a word, such as the name of a metric or of a function.
    fn word(&mut self) -> Option<&'a str> {
        self.skip();
        let rest = self.rest();
        let end =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | ':'))).unwrap_or(rest.len());
        let word = &rest[..end];
        if word.is_empty() || word.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        self.at += end;
        Some(word)
    }

    /// Consumes this word, if it comes next.
    fn consume_word(&mut self, keyword: &str) -> bool {
        let before = self.at;
        if self.word().is_some_and(|word| word.eq_ignore_ascii_case(keyword)) {
            return true;
        }
        self.at = before;
        false
    }

    fn expression(&mut self) -> Result<Expression, QueryError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(QueryError::TooLarge);
        }
        let mut left = self.sum()?;
        while self.consume_word("or") {
            left = binary(Operator::Or, left, self.sum()?);
        }
        self.depth -= 1;
        Ok(left)
    }

    fn sum(&mut self) -> Result<Expression, QueryError> {
        self.chain([("+", Operator::Add), ("-", Operator::Subtract)], Self::product)
    }

    fn product(&mut self) -> Result<Expression, QueryError> {
        self.chain([("*", Operator::Multiply), ("/", Operator::Divide)], Self::operand)
    }

    /// Operands with any of these operators between them, from left to right.
    fn chain(
        &mut self,
        operators: [(&str, Operator); 2],
        operand: fn(&mut Self) -> Result<Expression, QueryError>,
    ) -> Result<Expression, QueryError> {
        let mut left = operand(self)?;
        while let Some((_, operator)) = operators.iter().find(|(token, _)| self.consume(token)) {
            left = binary(*operator, left, operand(self)?);
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<Expression, QueryError> {
        self.operands += 1;
        if self.operands > MAX_OPERANDS {
            return Err(QueryError::TooLarge);
        }
        if self.consume("(") {
            let inside = self.expression()?;
            self.need(")", "`)`")?;
            return Ok(inside);
        }
        if let Some(number) = self.number() {
            return Ok(Expression::Number(number));
        }
        let start = self.at;
        let Some(word) = self.word() else { return Err(self.expected("a metric, a function or a number")) };
        if let Some(by) = aggregation(word) {
            return self.aggregate(by);
        }
        if !self.consume("(") {
            return Ok(Expression::Select(self.selector(word)?));
        }
        let function = match word {
            "vector" => Expression::Vector(Box::new(self.expression()?)),
            "rate" | "increase" => {
                let Some(name) = self.word() else { return Err(self.expected("a metric")) };
                let selector = self.selector(name)?;
                self.need("[", "a window such as `[5m]`")?;
                let window = self.duration()?;
                self.need("]", "`]`")?;
                Expression::Growth { selector, window, per_second: word == "rate" }
            }
            _ => {
                self.at = start;
                return Err(self.expected("a function that is supported here"));
            }
        };
        self.need(")", "`)`")?;
        Ok(function)
    }

    fn number(&mut self) -> Option<f64> {
        self.skip();
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        let number = rest[..end].parse().ok()?;
        self.at += end;
        Some(number)
    }

    /// The rest of `sum by (a) (…)` or of `sum(…) by (a)`.
    fn aggregate(&mut self, by: Aggregation) -> Result<Expression, QueryError> {
        let before = self.grouping()?;
        self.need("(", "`(`")?;
        let of = Box::new(self.expression()?);
        self.need(")", "`)`")?;
        let grouping = if before.is_some() { before } else { self.grouping()? };
        Ok(Expression::Aggregate { by, grouping, of })
    }

    fn grouping(&mut self) -> Result<Option<Grouping>, QueryError> {
        let excluded = self.consume_word("without");
        if !excluded && !self.consume_word("by") {
            return Ok(None);
        }
        self.need("(", "`(`")?;
        let mut labels = Vec::new();
        while let Some(label) = self.word() {
            labels.push(label.to_owned());
            if !self.consume(",") {
                break;
            }
        }
        self.need(")", "`)` after the labels")?;
        Ok(Some(Grouping { labels, excluded }))
    }

    fn selector(&mut self, name: &str) -> Result<Selector, QueryError> {
        let mut matchers = Vec::new();
        if self.consume("{") {
            while let Some(label) = self.word() {
                matchers.push(self.matcher(label)?);
                if !self.consume(",") {
                    break;
                }
            }
            self.need("}", "`}` after the labels")?;
        }
        Ok(Selector { name: name.to_owned(), matchers })
    }

    fn matcher(&mut self, label: &str) -> Result<Matcher, QueryError> {
        let (negated, is_regex) = match () {
            () if self.consume("=~") => (false, true),
            () if self.consume("!~") => (true, true),
            () if self.consume("!=") => (true, false),
            () if self.consume("=") => (false, false),
            () => return Err(self.expected("`=`, `!=`, `=~` or `!~`")),
        };
        let text = self.string()?;
        let value = if is_regex {
            self.regexes += 1;
            if self.regexes > MAX_REGEXES {
                return Err(QueryError::TooLarge);
            }
            // Prometheus anchors regular expressions.
            let regex = RegexBuilder::new(&format!("^(?:{text})$")).size_limit(MAX_REGEX).build();
            Value::Regex(regex.map_err(|_| self.expected("a regular expression before this"))?)
        } else {
            Value::Equal(text)
        };
        Ok(Matcher { label: label.to_owned(), value, negated })
    }

    fn string(&mut self) -> Result<String, QueryError> {
        self.skip();
        let mut characters = self.rest().char_indices();
        let Some((_, quote @ ('"' | '\'' | '`'))) = characters.next() else {
            return Err(self.expected("a value in quotation marks"));
        };
        let mut text = String::new();
        while let Some((index, character)) = characters.next() {
            match character {
                _ if character == quote => {
                    self.at += index + 1;
                    return Ok(text);
                }
                '\\' if quote != '`' => match characters.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, escaped)) => text.push(escaped),
                    None => break,
                },
                _ => text.push(character),
            }
        }
        Err(self.expected("a value that ends with a quotation mark"))
    }

    /// A duration such as `5m` or `1h30m`.
    fn duration(&mut self) -> Result<Duration, QueryError> {
        self.skip();
        let mut total = Duration::ZERO;
        loop {
            let rest = self.rest();
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let Ok(count) = rest[..digits].parse::<u32>() else { break };
            let (unit, length) = match &rest[digits..] {
                unit if unit.starts_with("ms") => (Duration::from_millis(1), 2),
                unit if unit.starts_with('s') => (Duration::from_secs(1), 1),
                unit if unit.starts_with('m') => (Duration::from_mins(1), 1),
                unit if unit.starts_with('h') => (Duration::from_hours(1), 1),
                unit if unit.starts_with('d') => (Duration::from_hours(24), 1),
                _ => return Err(self.expected("a unit of time")),
            };
            total = total.saturating_add(unit.saturating_mul(count));
            self.at += digits + length;
        }
        if total.is_zero() { Err(self.expected("a duration such as `5m`")) } else { Ok(total) }
    }
}

fn binary(operator: Operator, left: Expression, right: Expression) -> Expression {
    Expression::Binary(operator, Box::new([left, right]))
}

fn aggregation(word: &str) -> Option<Aggregation> {
    Some(match word {
        "sum" => Aggregation::Sum,
        "avg" => Aggregation::Average,
        "min" => Aggregation::Least,
        "max" => Aggregation::Most,
        "count" => Aggregation::Count,
        _ => return None,
    })
}
