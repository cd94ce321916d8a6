//! Label and field selectors.

pub(crate) mod field;
pub(crate) mod label;

use self::{field::FieldSelector, label::LabelSelector};
use crate::store::Tree;

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
    pub(crate) fn selects_all(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty() && self.name.is_none()
    }

    pub(crate) fn matches(&self, object: &Tree) -> bool {
        let head = object.head();
        self.name.as_ref().is_none_or(|name| head["metadata"]["name"] == name.as_str())
            && self.labels.matches(&head["metadata"]["labels"])
            && self.fields.matches(if self.fields.is_in_head() { head } else { object })
    }
}
