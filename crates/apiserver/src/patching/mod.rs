//! PATCH bodies and field ownership.

use jiff::Timestamp;
use serde_json::Value;

use crate::{kinds::Resource, status::ApiError};

/// The media types of PATCH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// `application/json-patch+json`
    Json,
    /// `application/merge-patch+json`
    Merge,
    /// `application/strategic-merge-patch+json`
    Strategic,
    /// `application/apply-patch+yaml`
    Apply,
}

/// What a patch or a tracked write is about.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    /// The version that the request named.
    pub resource: &'a Resource,
    /// `status`, `scale`, or none.
    pub subresource: Option<&'a str>,
    /// Field manager; never empty.
    pub manager: &'a str,
    /// Whether conflicts are taken over (apply).
    pub force: bool,
    /// Time written into managedFields.
    pub now: Timestamp,
}

/// What came of a patch.
#[derive(Debug, Clone)]
pub struct Patched {
    /// The patched object in the version of the request; for apply with managedFields up to date.
    pub object: Value,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
    /// Problems that `fieldValidation` turns into a refusal or a warning (duplicate and unknown fields of the patch).
    pub field_problems: Vec<String>,
}

/// Applies a patch body to `live` (the object in the version of the request; none only for an apply that creates).
pub fn patch(
    _write: &Write<'_>,
    _kind: PatchKind,
    _body: &[u8],
    _live: Option<&Value>,
) -> Result<Patched, ApiError> {
    Err(ApiError::new(415, "UnsupportedMediaType", "patches are not served yet"))
}

/// Brings `metadata.managedFields` of `new` up to date after a create, update or non-apply patch: fields that differ
/// from `live` become the manager's. Both objects are in the version of the request, defaulted. An update that
/// changes nothing keeps `live`'s entries and times.
pub fn track(_write: &Write<'_>, _live: Option<&Value>, _new: &mut Value) {}
