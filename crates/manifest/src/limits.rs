//! Limits on the size of manifests. Manifests come from foreign repositories, and must not exhaust the machine's memory.

use serde_saphyr::{DuplicateKeyPolicy, Options};

/// The most bytes of one input. A folder may have many inputs.
pub const MAX_BYTES: usize = 64 << 20;

/// The most documents of one input.
pub(crate) const MAX_DOCUMENTS: usize = 20_000;

/// The deepest nesting of maps and lists. CustomResourceDefinitions with pod templates have about fifty levels.
pub const MAX_DEPTH: usize = 128;

/// The most keys, values, maps and lists of one document. The largest CustomResourceDefinitions have a quarter of a million.
pub(crate) const MAX_NODES: usize = 4_000_000;

/// The most nodes that aliases (`*name`) may add to a document.
pub(crate) const MAX_ALIASED: usize = 100_000;

/// The options of the parser. Within the limits, it follows kubectl where YAML's versions differ.
pub(crate) fn options() -> Options {
    let mut options = Options::default();
    options.with_snippet = false;
    options.emit_comments = false;
    // Otherwise the second value would silently replace the first.
    options.duplicate_keys = DuplicateKeyPolicy::Error;
    // Kubernetes reads `defaultMode: 0644` as 420.
    options.legacy_octal_numbers = true;
    options.alias_limits.max_total_replayed_events = MAX_ALIASED;
    if let Some(budget) = &mut options.budget {
        budget.max_depth = MAX_DEPTH;
        budget.max_nodes = MAX_NODES;
        // The end of a map or a list is an event, too.
        budget.max_events = 2 * MAX_NODES;
    }
    options
}
