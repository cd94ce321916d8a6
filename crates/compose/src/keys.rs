//! The lists of the spec that merge by key, from the table in crate `types`.

use std::{collections::HashMap, sync::LazyLock};

use longboat_types::{type_def, type_names};

/// Merge keys by type (with its Go name, `v1.Container`) and field.
static KEYS: LazyLock<HashMap<(String, &'static str), &'static str, ahash::RandomState>> =
    LazyLock::new(|| {
        let mut keys = HashMap::default();
        for name in type_names() {
            // Only pod specs and claims have lists that merge. Everything else in a spec is atomic.
            let Some(short) = name.strip_prefix("core.v1.") else { continue };
            for field in type_def(name).into_iter().flat_map(|t| &t.fields) {
                if field.patch.merge && !field.patch.key.is_empty() {
                    keys.insert((format!("v1.{short}"), field.name), field.patch.key);
                }
            }
        }
        keys
    });

/// The key by which the list `field` of the struct `holder` merges. Returns `None` if the list is replaced as a whole.
pub(crate) fn list_key(holder: &str, field: &str) -> Option<&'static str> {
    // Few structs have such lists, so scanning the small map is faster than allocating a key.
    KEYS.iter().find(|((h, f), _)| *f == field && h == holder).map(|(_, key)| *key)
}
