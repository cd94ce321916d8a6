//! What `up` shows and does while services run.

pub(crate) mod prompt;
pub(crate) mod watch;

/// A service that is ready to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Service {
    /// `namespace/name`.
    pub(crate) name: String,
    /// `status.url`, without a slash at its end.
    pub(crate) url: String,
    /// A model name that it answers to.
    pub(crate) model: String,
}
