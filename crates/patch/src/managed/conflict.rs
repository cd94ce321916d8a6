//! Conflicts between an apply and other owners.

use std::{collections::BTreeMap, fmt};

use crate::{fields::Path, gofmt};

use super::entries::{Manager, Ownership};

/// A field that another manager owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The other manager as kube-apiserver prints it: `"kubectl" using apps/v1 at 2026-01-01T00:00:00Z`.
    pub manager: String,
    /// The field.
    pub path: Path,
}

impl Conflict {
    /// The message of this conflict in the list of causes of the response.
    pub fn message(&self) -> String {
        format!("conflict with {}", self.manager)
    }
}

/// All conflicts of an apply; never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Conflicts(pub Vec<Conflict>);

impl fmt::Display for Conflicts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(out, "Apply failed with 1 conflict: {}: {}", only.message(), only.path);
        }
        let mut by_manager: BTreeMap<&str, Vec<&Path>> = BTreeMap::new();
        for conflict in &self.0 {
            by_manager.entry(&conflict.manager).or_default().push(&conflict.path);
        }
        let mut lines = Vec::new();
        for (manager, paths) in by_manager {
            lines.push(format!("conflicts with {manager}:"));
            lines.extend(paths.into_iter().map(|path| format!("- {path}")));
        }
        write!(out, "Apply failed with {} conflicts: {}", self.0.len(), lines.join("\n"))
    }
}

/// The conflicts, grouped by manager.
pub(super) fn of(conflicts: &Ownership) -> Conflicts {
    let mut list = Vec::new();
    for (manager, owned) in conflicts {
        let name = printed(manager);
        list.extend(owned.set.paths().into_iter().map(|path| Conflict { manager: name.clone(), path }));
    }
    Conflicts(list)
}

fn printed(manager: &Manager) -> String {
    let mut text = gofmt::quote(&manager.name);
    if !manager.subresource.is_empty() {
        text = format!("{text} with subresource {}", gofmt::quote(&manager.subresource));
    }
    if manager.operation == "Update" {
        text = format!("{text} using {}", manager.api_version);
        if let Some(time) = &manager.time {
            text = format!("{text} at {time}");
        }
    }
    text
}
