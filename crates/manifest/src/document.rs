//! One object of a manifest.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{
    FieldLocation, Position, block,
    node::{Node, Parts},
    path,
};

/// One object as the user wrote it.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// File, or `-` for standard input.
    pub source: Arc<str>,
    /// The object.
    pub object: Value,
    places: Node,
    /// The whole input, for positions inside of texts.
    input: Arc<str>,
}

// === impl Document ===

impl Document {
    pub(crate) fn new(source: Arc<str>, input: Arc<str>, object: Value, places: Node) -> Self {
        Self { source, object, places, input }
    }

    /// The position at which the object starts.
    pub fn start(&self) -> Position {
        self.places.at
    }

    /// Returns the position of a field by its path (`spec.template.containers[0].image`). If the field does not exist,
    /// returns the position of its nearest existing parent.
    pub fn locate(&self, path: &str) -> FieldLocation {
        path::locate(&self.places, path)
    }

    /// Returns the value of a field by its path, whose names may contain dots.
    pub fn value(&self, path: &str) -> Option<&Value> {
        path::value(&self.object, path)
    }

    /// Returns the position of the field `inner` of a YAML document that is itself the text `text` of the field `path`. If
    /// the text is not a block (`path: |`), or has no such field, returns the position of the field `path`.
    pub fn locate_within(&self, path: &str, text: &str, inner: &str) -> Position {
        let outer = self.locate(path);
        block::locate(&self.input, outer.key, text, inner).unwrap_or(outer.key)
    }

    /// The position of a field as `file:line:column`, the form of compilers.
    pub fn place(&self, path: &str) -> String {
        format!("{}:{}", self.source, self.locate(path).key)
    }

    /// The string at a JSON pointer in the object, or an empty string.
    pub fn text(&self, pointer: &str) -> &str {
        self.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// `apiVersion` of the object.
    pub fn api_version(&self) -> &str {
        self.text("/apiVersion")
    }

    /// The API group of the object; empty for the core group.
    pub fn group(&self) -> &str {
        self.api_version().split_once('/').map_or("", |(group, _)| group)
    }

    /// `kind` of the object.
    pub fn kind(&self) -> &str {
        self.text("/kind")
    }

    /// The object's name; empty if it is to be generated.
    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// The object's namespace; empty if the object does not specify one.
    pub fn namespace(&self) -> &str {
        self.text("/metadata/namespace")
    }
}

/// Splits lists: returns the items of a `kind: …List` with `items`, or else the object itself.
pub(crate) fn items(value: Value, node: Node) -> Vec<(Value, Node)> {
    // The names of other kinds may end so, too. Go programs write the items of an empty list as null.
    let is_list = value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"))
        && matches!(value.get("items"), Some(Value::Array(_) | Value::Null));
    match (value, node.parts) {
        (Value::Object(mut fields), Parts::Fields(places)) if is_list => {
            let place = places.into_iter().find(|(name, ..)| &**name == "items");
            match (fields.remove("items"), place) {
                (Some(Value::Array(mut items)), Some((_, _, Node { parts: Parts::Items(nodes), .. }))) => {
                    for item in &mut items {
                        name_kind(item, &fields);
                    }
                    items.into_iter().zip(nodes).collect()
                }
                _ => Vec::new(),
            }
        }
        (value, parts) => vec![(value, Node { at: node.at, parts })],
    }
}

/// Sets the kind of an item of a typed list that has none. An API server leaves the kind out of such items (`kubectl get --raw`), and
/// kubectl fills it in, too.
fn name_kind(item: &mut Value, list: &Map<String, Value>) {
    let kind = list.get("kind").and_then(Value::as_str).and_then(|kind| kind.strip_suffix("List"));
    let (Some(kind), Some(api_version), Value::Object(fields)) = (kind, list.get("apiVersion"), item) else {
        return;
    };
    if !kind.is_empty() && !fields.contains_key("kind") && !fields.contains_key("apiVersion") {
        fields.insert("apiVersion".to_owned(), api_version.clone());
        fields.insert("kind".to_owned(), kind.into());
    }
}
