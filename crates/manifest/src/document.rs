//! One object of a manifest.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    Located, Position,
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
}

// === impl Document ===

impl Document {
    pub(crate) fn new(source: Arc<str>, object: Value, places: Node) -> Self {
        Self { source, object, places }
    }

    /// Where the object starts.
    pub fn start(&self) -> Position {
        self.places.at
    }

    /// Where a field stands, by its path (`spec.template.containers[0].image`). Of a field that is not there, the place
    /// of its nearest parent; of parents that hold only the names of fields on the way, the innermost.
    pub fn locate(&self, path: &str) -> Located {
        path::locate(&self.places, path)
    }

    /// `file:line:column` of a field, as compilers print places.
    pub fn place(&self, path: &str) -> String {
        format!("{}:{}", self.source, self.locate(path).key)
    }

    /// A text of the object by its JSON pointer; empty where there is none.
    pub fn text(&self, pointer: &str) -> &str {
        self.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// `apiVersion` of the object.
    pub fn api_version(&self) -> &str {
        self.text("/apiVersion")
    }

    /// `kind` of the object.
    pub fn kind(&self) -> &str {
        self.text("/kind")
    }

    /// The object's name; empty where it is to be generated.
    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// The object's namespace; empty where it names none.
    pub fn namespace(&self) -> &str {
        self.text("/metadata/namespace")
    }
}

/// Takes lists apart: the items of a `kind: …List` with `items`, or the object itself.
pub(crate) fn items(value: Value, node: Node) -> Vec<(Value, Node)> {
    let is_list = value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match (value, node.parts) {
        (Value::Object(mut fields), Parts::Fields(places)) if is_list => {
            let place = places.into_iter().find(|(name, ..)| &**name == "items");
            match (fields.remove("items"), place) {
                (Some(Value::Array(items)), Some((_, _, Node { parts: Parts::Items(nodes), .. }))) => {
                    items.into_iter().zip(nodes).collect()
                }
                // An empty list of a Go program has null items.
                _ => Vec::new(),
            }
        }
        (value, parts) => vec![(value, Node { at: node.at, parts })],
    }
}
