//! Calls to admission and conversion webhooks.

mod admission;
#[cfg(test)]
mod calls;
mod clients;
mod conversion;
mod hooks;
mod trust;

use serde_json::Value;

pub(crate) use admission::{mutate, validate};
pub(crate) use clients::WebhookClients;
pub(crate) use conversion::convert;

use crate::kinds::Resource;

/// The content of an admission review.
#[derive(Debug, Clone)]
pub(crate) struct Review<'a> {
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub(crate) operation: &'static str,
    /// The version that the request named.
    pub(crate) resource: &'a Resource,
    /// `status`, `scale`, or `None`.
    pub(crate) subresource: Option<&'a str>,
    /// Namespace of the object (for a Namespace its own name), if any.
    pub(crate) namespace: Option<&'a str>,
    /// Name; empty while generateName is pending.
    pub(crate) name: &'a str,
    /// The new object (`None` on DELETE).
    pub(crate) object: Option<&'a Value>,
    /// The stored object, on UPDATE and DELETE.
    pub(crate) old: Option<&'a Value>,
    /// `CreateOptions`, `UpdateOptions`, … in the form that the review has.
    pub(crate) options: &'a Value,
    /// `userInfo` of the caller.
    pub(crate) user: &'a Value,
    /// Whether the request is a dry run, which stores nothing.
    pub(crate) dry_run: bool,
}
