//! OpenAPI v3 documents.
use serde_json::Value;
use crate::kinds::Registry;
/// The document of `/openapi/v3/<path>` (`api/v1`, `apis/apps/v1`), or none if nothing is served there.
pub fn openapi_document(_registry: &Registry, _path: &str) -> Option<Value> {
    None
}
