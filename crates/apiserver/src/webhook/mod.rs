//! Calls to admission and conversion webhooks.

use serde_json::Value;

use crate::{kinds::{Custom, Resource}, server::State, status::ApiError};

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

/// Asks the mutating webhooks in turn; the object as they leave it. Warnings are appended.
pub(crate) async fn mutate(
    _state: &State,
    review: &Review<'_>,
    _warnings: &mut Vec<String>,
) -> Result<Option<Value>, ApiError> {
    Ok(review.object.cloned())
}

/// Asks the validating webhooks. Warnings are appended.
pub(crate) async fn validate(
    _state: &State,
    _review: &Review<'_>,
    _warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    Ok(())
}

/// Has a conversion webhook convert `objects` to `api_version`, same order and number.
pub(crate) async fn convert(
    _state: &State,
    custom: &Custom,
    _config: &Value,
    _objects: Vec<Value>,
    _api_version: &str,
) -> Result<Vec<Value>, ApiError> {
    Err(ApiError::internal(format!("{}: conversion webhooks are not served yet", custom.crd_name)))
}
