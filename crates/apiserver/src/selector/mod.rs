//! Label and field selectors.

pub(crate) mod field;
pub(crate) mod label;

use serde_json::Value;

use self::{field::FieldSelector, label::LabelSelector};

/// Selects the objects of a list, a watch or a collection deletion.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selector {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
    /// The name of the only selected object.
    pub(crate) name: Option<String>,
}

// === impl Selector ===

impl Selector {
    /// Whether the selector selects all objects.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty() && self.name.is_none()
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        self.name.as_ref().is_none_or(|name| object["metadata"]["name"] == name.as_str())
            && self.labels.matches(&object["metadata"]["labels"])
            && self.fields.matches(object)
    }
}
