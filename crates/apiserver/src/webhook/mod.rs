//! Calls to admission and conversion webhooks.

mod admission;
pub(crate) mod config;
mod conversion;
mod hooks;
mod outgoing;
#[cfg(test)]
mod tests;

use serde_json::Value;

pub(crate) use admission::{mutate, validate};
pub(crate) use conversion::convert;
pub(crate) use outgoing::Outgoing;

use crate::kinds::Resource;

/// What an admission review is about.
#[derive(Debug, Clone)]
pub struct Review<'a> {
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub operation: &'static str,
    /// The version that the request named.
    pub resource: &'a Resource,
    /// `status`, `scale`, or none.
    pub subresource: Option<&'a str>,
    /// Namespace of the object (for a Namespace its own name), if any.
    pub namespace: Option<&'a str>,
    /// Name; empty while generateName is pending.
    pub name: &'a str,
    /// New object (none on DELETE).
    pub object: Option<&'a Value>,
    /// Stored object, on UPDATE and DELETE.
    pub old: Option<&'a Value>,
    /// `CreateOptions`, `UpdateOptions`, … as sent on.
    pub options: &'a Value,
    /// `userInfo` of the caller.
    pub user: &'a Value,
    /// Whether nothing will be stored.
    pub dry_run: bool,
}
