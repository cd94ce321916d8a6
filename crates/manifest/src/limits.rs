//! How much a manifest may hold. Manifests come from repositories of others: none may take the memory of the machine.

use serde_saphyr::{DuplicateKeyPolicy, Options};

/// Bytes of one input. A folder may hold many.
pub const MAX_BYTES: usize = 64 << 20;

/// Documents of one input.
pub const MAX_DOCUMENTS: usize = 20_000;

/// Levels of maps and lists within each other. CustomResourceDefinitions of pod templates have about fifty.
pub const MAX_DEPTH: usize = 128;

/// Keys, values, maps and lists of one document. The largest CustomResourceDefinitions have a quarter of a million.
pub(crate) const MAX_NODES: usize = 4_000_000;

/// Nodes that aliases (`*name`) may add to a document.
pub(crate) const MAX_ALIASED: usize = 100_000;

/// How the parser reads a document: as kubectl does where YAML's versions differ, within the limits.
pub(crate) fn options() -> Options {
    let mut options = Options::default();
    options.with_snippet = false;
    options.emit_comments = false;
    // The second one would silently win.
    options.duplicate_keys = DuplicateKeyPolicy::Error;
    // `defaultMode: 0644` means 420 wherever Kubernetes reads YAML.
    options.legacy_octal_numbers = true;
    options.alias_limits.max_total_replayed_events = MAX_ALIASED;
    if let Some(budget) = &mut options.budget {
        budget.max_depth = MAX_DEPTH;
        budget.max_nodes = MAX_NODES;
        budget.max_events = 2 * MAX_NODES;
    }
    options
}
