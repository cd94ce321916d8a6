//! Suggestions for unknown fields.

use longboat_manifest::{Document, nearest};
use longboat_strategy::kinds::Resource;
use serde_json::Value;

/// Returns the known sibling that is most similar to the field at `path`.
pub(super) fn meant(resource: &Resource, document: &Document, path: &str) -> Option<String> {
    let schema = resource.custom()?.schema.source();
    let (siblings, name) = siblings(schema, &document.object, path)?;
    nearest(siblings.as_object()?.keys().map(String::as_str), name).map(ToOwned::to_owned)
}

/// Returns the properties beside the field at `path`, and the field's name. Walks schema and object together, because keys of
/// maps may contain dots and only the object shows which keys exist.
fn siblings<'s, 'p>(schema: &'s Value, object: &Value, path: &'p str) -> Option<(&'s Value, &'p str)> {
    let path = path.trim_start_matches('.');
    if let Some(rest) = path.strip_prefix('[') {
        let (index, rest) = rest.split_once(']')?;
        return siblings(&schema["items"], object.get(index.parse::<usize>().ok()?)?, rest);
    }
    let fields = object.as_object()?;
    let fitting = fields.iter().filter_map(|(name, value)| {
        let rest = path.strip_prefix(name.as_str())?;
        (rest.is_empty() || rest.starts_with(['.', '['])).then_some((name, value, rest))
    });
    let (name, value, rest) = fitting.max_by_key(|(name, ..)| name.len())?;
    if rest.is_empty() {
        let at = path.len() - name.len();
        return Some((schema.get("properties")?, &path[at..]));
    }
    let below = schema["properties"].get(name.as_str()).or_else(|| schema.get("additionalProperties"))?;
    siblings(below, value, rest)
}
