//! Regular expressions of routes, with limits: whoever may write routes must not fill the memory of a gateway.
//!
//! An expression is a finite automaton whose size is known, and which needs nothing more while it matches. As in RE2, which Envoy uses,
//! values are UTF-8, and `\\w`, `\\d`, `\\s` and `\\b` mean ASCII.

use std::error::Error;

use regex_automata::{
    Anchored, Input, MatchKind,
    dfa::{Automaton, StartKind, dense, sparse},
    nfa::thompson,
    util::syntax,
};

/// The most bytes that each step of compiling an expression may need: 4,096 characters of names need a third of it.
const MAX_COMPILE_BYTES: usize = 1 << 20;

/// The most bytes of the expressions of a route: it has room for 25 with 4,096 characters of names.
const MAX_ROUTE_REGEX_BYTES: usize = 512 << 10;

/// The most bytes of an automaton that is dense. A sparse one is smaller, and matches a short value four to ten times as slowly.
const MAX_DENSE_BYTES: usize = 8 << 10;

/// The most bytes of the expressions of all routes of a Gateway. A short one has 1 to 4 KiB.
pub(super) const MAX_GATEWAY_REGEX_BYTES: usize = 16 << 20;

/// A compiled regular expression. It matches the whole value, with or without anchors, as in Envoy.
#[derive(Debug)]
pub(super) enum Expression {
    Dense(dense::DFA<Vec<u32>>),
    Sparse(sparse::DFA<Vec<u8>>),
}

/// The memory that the expressions of a route use.
#[derive(Debug)]
pub(super) struct RegexBudget {
    used: usize,
    /// An expression was too large. Finding this out is expensive, so no other must be compiled.
    pub(super) is_exceeded: bool,
}

// === impl RegexBudget ===

impl RegexBudget {
    pub(super) const fn new() -> Self {
        Self { used: 0, is_exceeded: false }
    }

    pub(super) const fn used(&self) -> usize {
        self.used
    }
}

// === impl Expression ===

impl Expression {
    /// Compiles an expression. The error says why it cannot be used.
    pub(super) fn new(text: &str, budget: &mut RegexBudget) -> Result<Self, String> {
        let too_large = |what: &str| {
            format!(
                "the regular expression `{text}` {what}: match exactly, or with lower counts of repetitions and fewer alternatives"
            )
        };
        let expression = match compiled(text) {
            Ok(expression) => expression,
            Err(Some(why)) => return Err(format!("the regular expression `{text}` cannot be used: {why}")),
            Err(None) => {
                budget.is_exceeded = true;
                return Err(too_large(&format!("needs more than {MAX_COMPILE_BYTES} bytes")));
            }
        };
        let used = budget.used + expression.memory_usage() + size_of::<Self>();
        if used > MAX_ROUTE_REGEX_BYTES {
            budget.is_exceeded = true;
            return Err(too_large(&format!(
                "and those before it need more than {MAX_ROUTE_REGEX_BYTES} bytes together"
            )));
        }
        budget.used = used;
        Ok(expression)
    }

    fn memory_usage(&self) -> usize {
        match self {
            Self::Dense(automaton) => automaton.memory_usage(),
            Self::Sparse(automaton) => automaton.memory_usage(),
        }
    }

    pub(super) fn accepts(&self, value: &[u8]) -> bool {
        let input = Input::new(value).anchored(Anchored::Yes);
        // The longest match. There are no errors: no byte makes these automata give up.
        let found = match self {
            Self::Dense(automaton) => automaton.try_search_fwd(&input),
            Self::Sparse(automaton) => automaton.try_search_fwd(&input),
        };
        matches!(found, Ok(Some(found)) if found.offset() == value.len())
    }
}

/// Compiles an expression. The error says what is wrong with it; nothing if it is too large.
fn compiled(text: &str) -> Result<Expression, Option<String>> {
    let limit = Some(MAX_COMPILE_BYTES);
    let config = dense::Config::new()
        .match_kind(MatchKind::All)
        .start_kind(StartKind::Anchored)
        .dfa_size_limit(limit)
        .determinize_size_limit(limit);
    let mut builder = dense::Builder::new();
    builder
        .syntax(syntax::Config::new().utf8(false))
        .thompson(thompson::Config::new().utf8(false).nfa_size_limit(limit))
        .configure(config);
    let dense = builder.build(&with_ascii_classes(text)).map_err(|error| innermost(&error));
    let expression = dense.and_then(|dense| {
        if dense.memory_usage() <= MAX_DENSE_BYTES {
            return Ok(Expression::Dense(dense));
        }
        dense.to_sparse().map(Expression::Sparse).map_err(|error| innermost(&error))
    });
    expression.map_err(|error| {
        // The text of an error of syntax begins with a drawing.
        let of_syntax = error.rsplit_once("error: ").map(|(_, cause)| cause.trim_end_matches('.').to_owned());
        of_syntax.or_else(|| error.starts_with("unsupported").then_some(error))
    })
}

/// Writes the classes that mean ASCII in RE2, and Unicode here, in a form that means ASCII also here. A class may stand within another one.
fn with_ascii_classes(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        if character != '\\' {
            written.push(character);
            continue;
        }
        let escaped = rest.next();
        match escaped {
            Some('w') => written.push_str("[[:word:]]"),
            Some('W') => written.push_str("[[:^word:]]"),
            Some('d') => written.push_str("[[:digit:]]"),
            Some('D') => written.push_str("[[:^digit:]]"),
            // Unlike `[[:space:]]`, without the vertical tab.
            Some('s') => written.push_str(r"[\t\n\f\r\x20]"),
            Some('S') => written.push_str(r"[^\t\n\f\r\x20]"),
            // Within brackets, both are errors in this form, too.
            Some('b') => written.push_str(r"(?-u:\b)"),
            Some('B') => written.push_str(r"(?-u:\B)"),
            _ => {
                written.push(character);
                written.extend(escaped);
            }
        }
    }
    written
}

fn innermost(error: &dyn Error) -> String {
    error.source().map_or_else(|| error.to_string(), innermost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_utf_8_and_short_classes_are_ascii_as_in_re2() {
        for (text, accepted, refused) in [
            (r"\pL+", &["\u{e9}lan", "Stra\u{df}e"][..], &["a1"][..]),
            (r"\p{Greek}", &["\u{3b1}"], &["a"]),
            ("[\u{e9}-\u{eb}]", &["\u{e9}", "\u{ea}"], &["e"]),
            ("(?i)\u{c9}", &["\u{e9}"], &["e"]),
            (".", &["\u{e9}", "a"], &["ab"]),
            (r"\w+", &["a_1"], &["\u{e9}"]),
            (r"[\w.-]+", &["a.b-c"], &["\u{e9}", "["]),
            (r"[^\W\d]", &["a"], &["1", "\u{e9}"]),
            (r"\W\D\S", &["\u{e9}\u{e9}\u{e9}"], &["a\u{e9}\u{e9}"]),
            (r"\d\s\d", &["1 2"], &["\u{661} 2", "1\u{a0}2"]),
            (r".*\bb\b.*", &["a b c", "\u{e9}b"], &["ab"]),
            (r"\\w", &["\\w"], &["a"]),
        ] {
            let expression = Expression::new(text, &mut RegexBudget::new()).unwrap();
            for (values, expected) in [(accepted, true), (refused, false)] {
                for value in values {
                    assert_eq!(expression.accepts(value.as_bytes()), expected, "{text}: {value}");
                }
            }
        }
        assert!(!Expression::new(".", &mut RegexBudget::new()).unwrap().accepts(b"\xff"));
        assert!(Expression::new(r"[\b]", &mut RegexBudget::new()).is_err());
    }

    #[test]
    fn small_automata_are_dense_and_large_ones_sparse() {
        let compiled = |text| Expression::new(text, &mut RegexBudget::new()).unwrap();
        assert!(matches!(compiled("^publishers/ns/models/(m|a)$"), Expression::Dense(_)));
        assert!(matches!(compiled(r"\pL+"), Expression::Sparse(_)));
    }
}
