//! Field ownership: `metadata.managedFields` through updates and applies, as kube-apiserver keeps it.
//!
//! Both [`update`] and [`apply`] are pure; what they need of the world is handed in: the schema of each version and
//! conversion between versions ([`Versions`]), who writes, and the time ([`Write`]).

mod apply;
mod conflict;
mod entries;
mod last_applied;
mod scale;
mod update;
mod updater;

use serde_json::Value;

use crate::{fields::Set, schema::Node};

pub use apply::{ApplyOutcome, apply};
pub use conflict::{Conflict, Conflicts};
pub use entries::is_reset;
pub use scale::{scale_to_parent, scale_to_subresource};
pub use update::update;

/// What a write is, as far as ownership is concerned.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// Version of the objects that are handed in, such as `apps/v1`.
    pub api_version: &'a str,
    /// Their kind.
    pub kind: &'a str,
    /// Field manager. Empty stands for `unknown`.
    pub manager: &'a str,
    /// `status`, `scale`; empty for the object itself.
    pub subresource: &'a str,
    /// Whether an apply takes over what others own.
    pub force: bool,
    /// Time of the write: RFC 3339 with seconds, in UTC.
    pub now: &'a str,
    /// Fields that this endpoint resets, such as `status` for the object itself: nobody comes to own them here.
    pub ignored: Option<&'a Set>,
}

/// The versions of a kind.
pub trait Versions {
    /// The schema of a version; none when it is not served any more.
    fn schema(&self, api_version: &str) -> Option<Node<'_>>;

    /// Converts an object to another version. The error is a text for people.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String>;
}

/// Why ownership could not be worked out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManagedError {
    /// The request is wrong: 400.
    #[error("{0}")]
    BadRequest(String),
    /// Others own what an apply changes: 409.
    #[error(transparent)]
    Conflict(Conflicts),
    /// Anything else: kube-apiserver answers 500 with this text.
    #[error("{0}")]
    Failed(String),
}

#[cfg(test)]
mod tests;
