//! Calls to admission and conversion webhooks.

mod admission;
#[cfg(test)]
mod calls;
pub(crate) mod config;
mod conversion;
mod hooks;
mod outgoing;
#[cfg(test)]
mod tests;
mod trust;

use serde_json::Value;

pub(crate) use admission::{mutate, validate};
pub(crate) use conversion::convert;
pub(crate) use outgoing::Outgoing;

use crate::kinds::Resource;

/// What an admission review is about.
#[derive(Debug, Clone)]
pub(crate) struct Review<'a> {
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub(crate) operation: &'static str,
    /// The version that the request named.
    pub(crate) resource: &'a Resource,
    /// `status`, `scale`, or none.
    pub(crate) subresource: Option<&'a str>,
    /// Namespace of the object (for a Namespace its own name), if any.
    pub(crate) namespace: Option<&'a str>,
    /// Name; empty while generateName is pending.
    pub(crate) name: &'a str,
    /// New object (none on DELETE).
    pub(crate) object: Option<&'a Value>,
    /// Stored object, on UPDATE and DELETE.
    pub(crate) old: Option<&'a Value>,
    /// `CreateOptions`, `UpdateOptions`, … as sent on.
    pub(crate) options: &'a Value,
    /// `userInfo` of the caller.
    pub(crate) user: &'a Value,
    /// Whether nothing will be stored.
    pub(crate) dry_run: bool,
}
