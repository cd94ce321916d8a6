//! The properties of a schema.

use std::sync::Arc;

/// The schemas of fields by name; a schema is a `Node`. Most schemas have a few fields, so a sorted list needs less memory than a tree.
/// Short names come first: comparing two lengths is fast, and mostly decides.
#[derive(Debug, Default)]
pub(crate) struct Properties<Node>(Box<[(Box<str>, Arc<Node>)]>);

// === impl Properties ===

impl<Node> Properties<Node> {
    pub(crate) fn get(&self, name: &str) -> Option<&Node> {
        let found = self.0.binary_search_by(|(known, _)| order(known).cmp(&order(name))).ok()?;
        Some(&self.0[found].1)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.0.iter().map(|(name, node)| (name.as_ref(), node.as_ref()))
    }
}

impl<Node> FromIterator<(Box<str>, Arc<Node>)> for Properties<Node> {
    /// If a name occurs several times, the last schema counts.
    fn from_iter<I: IntoIterator<Item = (Box<str>, Arc<Node>)>>(properties: I) -> Self {
        let known: std::collections::BTreeMap<_, _> = properties.into_iter().collect();
        let mut sorted: Box<[_]> = known.into_iter().collect();
        sorted.sort_by(|(one, _), (other, _)| order(one).cmp(&order(other)));
        Self(sorted)
    }
}

fn order(name: &str) -> (usize, &str) {
    (name.len(), name)
}
