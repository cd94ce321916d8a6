//! Suggestions for unknown fields.

use longboat_manifest::{Document, nearest};
use longboat_patch::schema::StructuralFields;
use longboat_strategy::kinds::Resource;
use serde_json::Value;

/// Returns the known sibling that is most similar to the field at `path`.
pub(super) fn meant(resource: &Resource, document: &Document, path: &str) -> Option<String> {
    let (parent, name) = parent(resource.custom()?.fields(), &document.object, path)?;
    nearest(parent.property_names(), name).map(ToOwned::to_owned)
}

/// Returns the schema of the object that has the field at `path`, and the field's name. Walks schema and object together, because keys of
/// maps may contain dots and only the object shows which keys exist.
fn parent<'s, 'p>(
    schema: &'s StructuralFields,
    object: &Value,
    path: &'p str,
) -> Option<(&'s StructuralFields, &'p str)> {
    let path = path.trim_start_matches('.');
    if let Some(rest) = path.strip_prefix('[') {
        let (index, rest) = rest.split_once(']')?;
        return parent(schema.items()?, object.get(index.parse::<usize>().ok()?)?, rest);
    }
    let fields = object.as_object()?;
    let fitting = fields.iter().filter_map(|(name, value)| {
        let rest = path.strip_prefix(name.as_str())?;
        (rest.is_empty() || rest.starts_with(['.', '['])).then_some((name, value, rest))
    });
    let (name, value, rest) = fitting.max_by_key(|(name, ..)| name.len())?;
    if rest.is_empty() {
        let at = path.len() - name.len();
        return Some((schema, &path[at..]));
    }
    let below = schema.property(name).or_else(|| schema.additional())?;
    parent(below, value, rest)
}
