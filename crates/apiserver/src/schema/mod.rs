//! What the content of objects must look like: structural schemas of custom resources, field sets of the built-in
//! kinds, rules for CustomResourceDefinitions, and OpenAPI documents.

use serde_json::Value;

use crate::{
    kinds::{Registry, Resource},
    status::Cause,
};

/// The compiled schema of one version of a custom resource.
#[derive(Debug, Clone, Default)]
pub struct StructuralSchema {}

// === impl StructuralSchema ===

impl StructuralSchema {
    /// Compiles the schema of `version` (an entry of `spec.versions`) of the definition `crd`, which passed
    /// [`validate_crd`].
    pub fn compile(_crd: &Value, _version: &Value) -> Self {
        Self {}
    }

    /// Dotted paths of fields that pruning will drop, in document order (`spec.nope`, `spec.items[0].x`).
    pub fn unknown_fields(&self, _object: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Drops unknown fields and fills in defaults, in the reference's order.
    pub fn prune_and_default(&self, _object: &mut Value) {}

    /// Everything wrong with `new`; `old` is the stored object on updates (transition rules, ratcheting).
    pub fn validate(&self, _new: &Value, _old: Option<&Value>) -> Vec<Cause> {
        Vec::new()
    }
}

/// Dotted paths of fields in `object` that the built-in kind of `resource` does not have.
pub fn unknown_builtin_fields(_resource: &Resource, _object: &Value) -> Vec<String> {
    Vec::new()
}

/// Drops what [`unknown_builtin_fields`] names.
pub fn prune_builtin(_resource: &Resource, _object: &mut Value) {}

/// Why `object` cannot be read as the built-in kind of `resource` (a wrong JSON type somewhere), in the words of the
/// reference's decoder, without its `… in version … cannot be handled as a …: ` prefix.
pub fn mistyped_builtin_field(_resource: &Resource, _object: &Value) -> Option<String> {
    None
}

/// Fills in the defaults of a CustomResourceDefinition.
pub fn default_crd(_crd: &mut Value) {}

/// Everything wrong with a CustomResourceDefinition; `old` on updates.
pub fn validate_crd(_crd: &Value, _old: Option<&Value>) -> Vec<Cause> {
    Vec::new()
}

/// The document of `/openapi/v3/<path>` (`api/v1`, `apis/apps/v1`), or none if nothing is served there.
pub fn openapi_document(_registry: &Registry, _path: &str) -> Option<Value> {
    None
}
