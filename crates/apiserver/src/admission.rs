//! In-process admission hooks.

use futures::future::BoxFuture;
use serde_json::Value;

use crate::status::ApiError;

/// A request to an admission hook, in the shape of an `AdmissionReview` request.
#[derive(Debug, Clone)]
pub struct AdmissionRequest {
    /// API group of the resource; empty for core.
    pub group: String,
    /// Version of the request.
    pub version: String,
    /// Plural resource name.
    pub resource: String,
    /// Kind of the object.
    pub kind: String,
    /// Subresource, if any.
    pub subresource: Option<String>,
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub operation: &'static str,
    /// Namespace, if any.
    pub namespace: Option<String>,
    /// Object name; empty while generateName is pending.
    pub name: String,
    /// The object after the request (`None` on DELETE).
    pub object: Option<Value>,
    /// The stored object (on UPDATE and DELETE).
    pub old: Option<Value>,
    /// Whether the request is a dry run, which stores nothing.
    pub dry_run: bool,
}

/// The answer of an admission hook.
#[derive(Debug, Clone, Default)]
pub struct AdmissionAnswer {
    /// Why the request is refused; `None` if it is allowed.
    pub refused: Option<ApiError>,
    /// The object that replaces the one in the request (mutating hooks only).
    pub object: Option<Value>,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}

/// An admission hook.
pub trait Admission: Send + Sync + 'static {
    /// Whether the hook handles requests for this resource.
    fn handles(&self, group: &str, resource: &str) -> bool;

    /// Calls the hook before validation. The hook may change the object.
    fn mutate(&self, request: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer>;

    /// Calls the hook after validation. The hook may refuse the request; a changed object in its answer is ignored.
    fn validate(&self, request: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer>;
}
