//! Why something is not as its spec says.

/// A reason of the Gateway API, and a message: what a condition says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}
