//! When a request is sent again (`retry` of a rule).

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::duration;

/// The pause before each attempt of a route that names none: Envoy's base interval. Without any, a back end that is down would get all
/// attempts at once.
const DEFAULT_BACKOFF: Duration = Duration::from_millis(25);

/// When a request is sent again. It always is if a back end cannot be reached or does not answer in time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Retry {
    /// The statuses of responses after which the request is sent again.
    pub(crate) codes: Vec<u16>,
    /// How often.
    pub(crate) attempts: u32,
    /// The pause before each attempt.
    pub(crate) backoff: Duration,
}

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Spec {
    codes: Vec<u16>,
    attempts: u32,
    backoff: Option<String>,
}

impl Default for Spec {
    fn default() -> Self {
        Self { codes: Vec::new(), attempts: 1, backoff: None }
    }
}

// === impl Retry ===

impl Retry {
    pub(super) fn new(value: &Value) -> Option<Self> {
        let Spec { codes, attempts, backoff } = Spec::deserialize(value).ok()?;
        let backoff = match backoff {
            Some(text) => duration::parse(&text)?,
            None => DEFAULT_BACKOFF,
        };
        Some(Self { codes, attempts, backoff })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_retry_is_read_whole_or_refused() {
        let retry = Retry::new(&json!({"codes": [500], "attempts": 3, "backoff": "100ms"})).unwrap();
        let expected = Retry { codes: vec![500], attempts: 3, backoff: Duration::from_millis(100) };
        assert_eq!(retry, expected);
        assert_eq!(Retry::new(&json!({})).unwrap().attempts, 1);
        // The conformance suite asks for so many.
        assert_eq!(Retry::new(&json!({"attempts": 100})).unwrap().attempts, 100);
        for value in [json!({"backoff": "soon"}), json!({"conditions": ["x"]}), json!({"attempts": -1})] {
            assert_eq!(Retry::new(&value), None, "{value}");
        }
    }
}
