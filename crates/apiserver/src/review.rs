//! What admission reviews: webhooks, hooks of the process, and checks of the server itself.

use serde_json::Value;

use crate::{kinds::Resource, status::ApiError};

/// The context of an admission request: everything but the object.
#[derive(Debug, Clone)]
pub(crate) struct Review<'a> {
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub(crate) operation: &'static str,
    /// The version that the request named.
    pub(crate) resource: &'a Resource,
    /// `status`, `scale`, or `None`.
    pub(crate) subresource: Option<&'a str>,
    /// Namespace of the object (for a Namespace its own name), if any.
    pub(crate) namespace: Option<String>,
    /// Name; empty while generateName is pending.
    pub(crate) name: String,
    /// The stored object, on UPDATE and DELETE.
    pub(crate) old: Option<&'a Value>,
    /// `CreateOptions`, `UpdateOptions`, … in the form that webhooks see.
    pub(crate) options: &'a Value,
    /// `userInfo` of the caller.
    pub(crate) user: &'a Value,
    /// Whether the request is a dry run, which stores nothing.
    pub(crate) dry_run: bool,
}

// === impl Review ===

impl Review<'_> {
    /// Whether the request creates a pod.
    pub(crate) fn is_new_pod(&self) -> bool {
        let resource = self.resource;
        resource.group.is_empty()
            && resource.plural == "pods"
            && self.operation == "CREATE"
            && self.subresource.is_none()
    }

    /// The refusal of the object by an admission plugin. Of an object whose name is pending, it has the prefix.
    pub(crate) fn forbidden(&self, object: &Value, why: impl AsRef<str>) -> ApiError {
        let prefix = object["metadata"]["generateName"].as_str().unwrap_or_default();
        let name = if self.name.is_empty() { prefix } else { &self.name };
        ApiError::forbidden(self.resource.about(name), why)
    }
}
