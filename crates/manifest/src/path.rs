//! Paths of fields as messages of Kubernetes write them: `spec.template.containers[0].image`,
//! `metadata.annotations[example.com/x]`, `metadata.labels.app.kubernetes.io/name`.
//!
//! Names may contain dots, and the path does not show which dots are part of a name. The object decides: of the fields whose
//! names match, the longest is meant.

use serde_json::Value;

use crate::{
    FieldLocation, Position,
    node::{Node, Parts},
};

/// Follows the path from `root`.
pub(crate) fn locate(root: &Node, path: &str) -> FieldLocation {
    let mut found = FieldLocation { key: root.at, value: root.at, exists: true };
    let (mut node, mut rest) = (root, path.trim_start_matches('.'));
    while !rest.is_empty() {
        let Some((key, next, after)) = step(node, rest) else {
            found.exists = false;
            return found;
        };
        found = FieldLocation { key: key.unwrap_or(next.at), value: next.at, exists: true };
        (node, rest) = (next, after.trim_start_matches('.'));
    }
    found
}

/// Follows one step. Returns the position of the name (items of lists have none), the node, and the rest of the path.
fn step<'n, 'p>(node: &'n Node, path: &'p str) -> Option<(Option<Position>, &'n Node, &'p str)> {
    match &node.parts {
        Parts::None => None,
        Parts::Items(items) => {
            let (index, rest) = item(path)?;
            Some((None, items.get(index)?, rest))
        }
        Parts::Fields(fields) => {
            let named = fields.iter().map(|(name, at, node)| (&**name, (*at, node)));
            let ((at, node), rest) = field(named, path)?;
            Some((Some(at), node, rest))
        }
    }
}

/// Returns the value at the path in an object.
pub(crate) fn value<'v>(root: &'v Value, path: &str) -> Option<&'v Value> {
    let (mut value, mut rest) = (root, path.trim_start_matches('.'));
    while !rest.is_empty() {
        let after;
        (value, after) = match value {
            Value::Array(items) => {
                let (index, after) = item(rest)?;
                (items.get(index)?, after)
            }
            Value::Object(fields) => field(fields.iter().map(|(name, value)| (&**name, value)), rest)?,
            _ => return None,
        };
        rest = after.trim_start_matches('.');
    }
    Some(value)
}

/// Returns the index at the start of a path, and the rest.
fn item(path: &str) -> Option<(usize, &str)> {
    let (index, rest) = bracketed(path)?;
    Some((index.parse().ok()?, rest))
}

/// Returns the field that the start of a path names, and the rest.
fn field<'f, 'p, T>(mut fields: impl Iterator<Item = (&'f str, T)>, path: &'p str) -> Option<(T, &'p str)> {
    if let Some((name, rest)) = bracketed(path) {
        let name = name.trim_matches(['"', '\'']);
        return Some((fields.find(|(field, _)| *field == name)?.1, rest));
    }
    let fitting = fields.filter_map(|(name, value)| Some((name.len(), value, after_name(path, name)?)));
    let (_, value, rest) = fitting.max_by_key(|(length, ..)| *length)?;
    Some((value, rest))
}

/// Returns the rest of a path that begins with this name of a field.
fn after_name<'p>(path: &'p str, name: &str) -> Option<&'p str> {
    path.strip_prefix(name).filter(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Returns the content of the brackets at the start of a path, and the rest.
fn bracketed(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix('[')?.split_once(']')
}
