//! The lists of the spec that merge by key, from the table in crate `types`.

use longboat_types::type_def;

/// The key by which the list `field` of the struct `holder` (`v1.Container`) merges. Returns `None` if the list is replaced as
/// a whole.
pub(crate) fn list_key(holder: &str, field: &str) -> Option<&'static str> {
    // Only pod specs and claims have lists that merge, and their types are in the core group.
    let patch = type_def(&format!("core.{holder}"))?.field(field)?.patch;
    (patch.merge && !patch.key.is_empty()).then_some(patch.key)
}
