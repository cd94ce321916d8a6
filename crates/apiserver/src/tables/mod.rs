//! Objects as tables, as `kubectl get` prints them.

use serde_json::{Value, json};

use crate::{form::Shown, kinds::Resource, respond};

/// What a row carries besides its cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Object,
}

/// A table of objects; `apiVersion` and `metadata` are the caller's.
pub(crate) fn render(resource: &Resource, items: &[Shown], include: Include) -> Value {
    let _ = (resource, items, include, respond::partial);
    json!({"kind": "Table", "columnDefinitions": [], "rows": []})
}
