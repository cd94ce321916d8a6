//! The part of Prometheus' query language that triggers use: selectors, `rate` and `increase`, aggregations, arithmetic, and
//! `or vector(0)`.

mod evaluate;
mod parse;

pub use evaluate::{History, Labels, Sample};

use std::time::Duration;

use regex::Regex;

/// A parsed query.
#[derive(Debug, Clone)]
pub struct Query(Expression);

/// Why a query cannot be parsed or has no single number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The query is not in the supported part of the language.
    #[error(
        "cannot evaluate the query at character {at}: expected {expected}; supported are selectors, rate, increase, sum, \
         avg, min, max, count, vector, arithmetic and `or`"
    )]
    Syntax {
        /// The character, from 1.
        at: usize,
        /// What should stand there.
        expected: &'static str,
    },
    /// The query exceeds one of the limits in `parse.rs`.
    #[error("the query is too long, too deeply nested, or has too many operands or regular expressions")]
    TooLarge,
    /// The query has several results.
    #[error("the query returns {0} series, but a trigger needs one number: aggregate them with sum or avg")]
    SeveralSeries(usize),
}

#[derive(Debug, Clone)]
enum Expression {
    Number(f64),
    /// `vector(…)`.
    Vector(Box<Self>),
    Select(Selector),
    /// `rate(…[window])`, or `increase` if not `per_second`.
    Growth {
        selector: Selector,
        window: Duration,
        per_second: bool,
    },
    Aggregate {
        by: Aggregation,
        grouping: Option<Grouping>,
        of: Box<Self>,
    },
    Binary(Operator, Box<[Self; 2]>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aggregation {
    Sum,
    Average,
    Least,
    Most,
    Count,
}

/// `by (…)`, or `without (…)` if `excluded`.
#[derive(Debug, Clone)]
struct Grouping {
    labels: Vec<String>,
    excluded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Or,
}

/// `name{label="value"}`.
#[derive(Debug, Clone)]
struct Selector {
    name: String,
    matchers: Vec<Matcher>,
}

#[derive(Debug, Clone)]
struct Matcher {
    label: String,
    value: Value,
    /// Whether series match that do not have this value.
    negated: bool,
}

#[derive(Debug, Clone)]
enum Value {
    Equal(String),
    Regex(Regex),
}

// === impl Query ===

impl Query {
    /// Parses a query.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        parse::query(text).map(Self)
    }

    /// The sum of the series that have this name and these labels.
    pub fn sum_of<'a>(name: &str, labels: impl IntoIterator<Item = (&'a String, &'a String)>) -> Self {
        let matchers = labels.into_iter().map(|(label, value)| Matcher {
            label: label.clone(),
            value: Value::Equal(value.clone()),
            negated: false,
        });
        let of =
            Box::new(Expression::Select(Selector { name: name.to_owned(), matchers: matchers.collect() }));
        Self(Expression::Aggregate { by: Aggregation::Sum, grouping: None, of })
    }

    /// The names of the metrics that the query reads.
    pub fn names(&self) -> Vec<&str> {
        let mut names = Vec::new();
        self.0.each_selector(&mut |selector, _| names.push(selector.name.as_str()));
        names
    }

    /// The longest window of the query.
    pub fn window(&self) -> Duration {
        let mut longest = Duration::ZERO;
        self.0.each_selector(&mut |_, window| longest = longest.max(window));
        longest
    }

    /// Returns the number that the query yields now, or `None` if no series matches.
    pub fn evaluate(&self, history: &History) -> Result<Option<f64>, QueryError> {
        evaluate::single(&self.0, history)
    }
}

// === impl Expression ===

impl Expression {
    fn each_selector<'a>(&'a self, visit: &mut impl FnMut(&'a Selector, Duration)) {
        match self {
            Self::Number(_) => {}
            Self::Vector(of) | Self::Aggregate { of, .. } => of.each_selector(visit),
            Self::Select(selector) => visit(selector, Duration::ZERO),
            Self::Growth { selector, window, .. } => visit(selector, *window),
            Self::Binary(_, sides) => sides.iter().for_each(|side| side.each_selector(visit)),
        }
    }
}
