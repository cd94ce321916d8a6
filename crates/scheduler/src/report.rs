//! A number for the proxy, which an expression computes from a response's usage.

use longboat_schema::Program;
use serde_json::json;

use crate::numbers::float;

/// The variable that expressions can use.
pub(crate) const USAGE: &str = "usage";

/// The token counts of a response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// The tokens of the prompt.
    pub input: u64,
    /// The tokens of the answer.
    pub output: u64,
    /// The prompt tokens that were cached.
    pub cached: u64,
}

/// A number for the proxy, computed from a response's usage.
#[derive(Debug)]
pub struct Report {
    /// The namespace of the proxy's dynamic metadata.
    pub namespace: String,
    /// The key in the namespace.
    pub name: String,
    pub(crate) expression: Program,
    pub(crate) condition: Option<Program>,
}

impl Report {
    /// Returns the number. Returns `None` if the condition is false, or if the expression's result is 0 or not a number.
    pub fn of(&self, tokens: Usage) -> Option<i64> {
        // Numbers are floats, as in the JSON that the proxy receives.
        let usage = json!({
            "prompt_tokens": float(tokens.input),
            "completion_tokens": float(tokens.output),
            "total_tokens": float(tokens.input.saturating_add(tokens.output)),
            "prompt_tokens_details": {"cached_tokens": float(tokens.cached)},
        });
        let variables = [(USAGE, &usage)];
        if let Some(condition) = &self.condition
            && !condition.holds(&variables).unwrap_or_default()
        {
            return None;
        }
        self.expression.whole_number(&variables).ok().filter(|number| *number != 0)
    }
}
