//! Why something is not as its spec says.

/// A reason of the Gateway API, and a message: what a condition says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The reason.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

/// The reason for a field that this controller does not serve.
pub(crate) const UNSUPPORTED_VALUE: &str = "UnsupportedValue";
