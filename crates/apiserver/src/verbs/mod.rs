//! The verbs on objects, one per file.

pub(crate) mod crds;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod eviction;
pub(crate) mod incoming;
pub(crate) mod internal;
pub(crate) mod pods;
pub(crate) mod read;
pub(crate) mod reviews;
pub(crate) mod scale;
pub(crate) mod tokens;
pub(crate) mod update;
mod validate;
pub(crate) mod watch;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    kinds::Resource,
    request::{Request, path::ResourcePath},
    state::State,
    status::ApiError,
    store::{Key, StoredObject},
};

/// One request for a resource.
pub(crate) struct Call<'a> {
    pub(crate) state: &'a Arc<State>,
    pub(crate) request: &'a Request,
    pub(crate) resource: Arc<Resource>,
    pub(crate) path: ResourcePath,
    /// Texts for `Warning` headers.
    pub(crate) warnings: Vec<String>,
}

// === impl Call ===

impl Call<'_> {
    /// Returns the key of the object that the path names.
    pub(crate) fn key(&self) -> Key {
        Key::new(self.path.namespace.clone().unwrap_or_default(), self.path.name.clone().unwrap_or_default())
    }

    /// Returns the object that the path names.
    pub(crate) fn stored(&self) -> Result<Arc<StoredObject>, ApiError> {
        self.state.store.get(&self.resource.table, &self.key()).ok_or_else(|| self.not_found())
    }

    /// Returns the error that the object of the path does not exist.
    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::not_found(self.resource.about(self.path.name.as_deref().unwrap_or_default()))
    }

    /// Returns the namespace that admission reviews name. For a Namespace, it is its own name.
    pub(crate) fn review_namespace<'b>(&'b self, name: &'b str) -> Option<&'b str> {
        if self.resource.group.is_empty() && self.resource.plural == "namespaces" {
            Some(name).filter(|n| !n.is_empty())
        } else {
            self.path.namespace.as_deref()
        }
    }
}

/// Returns a Status that reports success.
pub(crate) fn success(resource: &Resource, name: &str, uid: &Value) -> Value {
    let mut details = json!({"name": name, "kind": resource.plural});
    if !resource.group.is_empty() {
        details["group"] = Value::from(resource.group.as_str());
    }
    if uid.is_string() {
        details["uid"] = uid.clone();
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
