//! Field ownership: maintains `metadata.managedFields` through updates and applies, like kube-apiserver.
//!
//! Both [`update`] and [`apply`] are pure. The caller provides the schema of each version and the conversion between versions
//! ([`Versions`]), and the manager and time of the write ([`Write`]).

mod apply;
mod conflict;
mod entries;
mod last_applied;
mod scale;
mod update;
mod updater;

use serde_json::Value;

use crate::{fields::Set, schema::Node};

pub use apply::apply;
pub use conflict::{Conflict, Conflicts};
pub use entries::without_entries;
pub use scale::{scale_to_parent, scale_to_subresource};
pub use update::update;

/// The properties of a write that matter for ownership.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// The version of the objects that the caller provides, such as `apps/v1`.
    pub api_version: &'a str,
    /// Their kind.
    pub kind: &'a str,
    /// The field manager. An empty name stands for `unknown`.
    pub manager: &'a str,
    /// The subresource, such as `status` or `scale`; empty for the object itself.
    pub subresource: &'a str,
    /// Whether an apply takes over fields that others own.
    pub force: bool,
    /// Time of the write: RFC 3339 with seconds, in UTC.
    pub now: &'a str,
    /// Fields that this endpoint resets, such as `status` for the object itself. A write here never makes anybody their
    /// owner.
    pub ignored: Option<&'a Set>,
}

/// The versions of a kind.
pub trait Versions {
    /// Returns the schema of a version, or `None` if the version is no longer served.
    fn schema(&self, api_version: &str) -> Option<Node<'_>>;

    /// Converts an object to another version. The error is a message for users.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String>;
}

/// Why the ownership could not be determined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManagedError {
    /// The request is invalid: 400.
    #[error("{0}")]
    BadRequest(String),
    /// Other managers own fields that an apply changes: 409.
    #[error(transparent)]
    Conflict(Conflicts),
    /// Any other error: kube-apiserver responds with 500 and this text.
    #[error("{0}")]
    Failed(String),
}

#[cfg(test)]
mod tests;
