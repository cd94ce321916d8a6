//! Admission hooks that run in this process.

use futures::future::BoxFuture;
use serde_json::Value;

use crate::status::ApiError;

/// What an admission hook is asked about; the shape of an `AdmissionReview` request.
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
    /// The object as it will be (none on DELETE).
    pub object: Option<Value>,
    /// The stored object (on UPDATE and DELETE).
    pub old: Option<Value>,
    /// Whether nothing will be stored.
    pub dry_run: bool,
}

/// What a hook decides.
#[derive(Debug, Clone, Default)]
pub struct AdmissionAnswer {
    /// Why the request is refused; none: it is allowed.
    pub refused: Option<ApiError>,
    /// The object instead of the one asked about (mutation only).
    pub object: Option<Value>,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}

/// An admission hook.
pub trait Admission: Send + Sync + 'static {
    /// Whether the hook wants to see requests for this resource.
    fn handles(&self, group: &str, resource: &str) -> bool;

    /// May change the object, before validation.
    fn mutate(&self, request: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer>;

    /// May refuse, after validation. A changed object is ignored.
    fn validate(&self, request: AdmissionRequest) -> BoxFuture<'static, AdmissionAnswer>;
}
