//! JSON schemas, as far as the automaton supports them. Unsupported keywords are refused by name.

use std::collections::{HashMap, HashSet};

use longboat_serving::Tool;
use serde_json::{Map, Value};

use crate::text::{CLOSE, OPEN};

/// The index of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Id(usize);

/// A set of allowed values.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    /// One of several nodes.
    Either(Vec<Id>),
    /// Exactly these bytes.
    Literal(Vec<u8>),
    /// All of these nodes, one after the other.
    Sequence(Vec<Id>),
    /// A string with a limited number of characters.
    Text {
        least: usize,
        most: usize,
    },
    Number {
        whole: bool,
    },
    /// An array with a limited number of values.
    List {
        items: Id,
        least: usize,
        most: usize,
    },
    /// An object with any keys.
    Map {
        values: Id,
    },
    /// An object with these properties in any order. Each has its name as JSON, and whether it is required.
    Object {
        properties: Vec<(Vec<u8>, Id, bool)>,
    },
}

/// A form as a graph of nodes.
#[derive(Debug, Clone)]
pub(super) struct Nodes {
    all: Vec<Node>,
    root: Id,
}

/// The most nodes of a schema.
const MAX_NODES: usize = 4096;
/// The most properties of an object, because the used ones are bits of a word.
const MAX_PROPERTIES: usize = 64;
/// The most alternatives in one place.
const MAX_ALTERNATIVES: usize = 1024;
/// Keywords without an effect on validation.
const ANNOTATIONS: [&str; 12] = [
    "title",
    "description",
    "default",
    "examples",
    "$schema",
    "$id",
    "$comment",
    "$defs",
    "definitions",
    "deprecated",
    "readOnly",
    "writeOnly",
];

// === impl Nodes ===

impl Nodes {
    /// Any JSON object.
    pub(super) fn object() -> Result<Self, String> {
        let mut builder = Builder { all: Vec::new(), known: HashMap::new(), schema: &Value::Null };
        let values = builder.any()?;
        let root = builder.add(Node::Map { values })?;
        Ok(Self { all: builder.all, root })
    }

    /// One of these texts.
    pub(super) fn choice(texts: &[String]) -> Result<Self, String> {
        let mut builder = Builder { all: Vec::new(), known: HashMap::new(), schema: &Value::Null };
        let literals = texts.iter().map(|text| builder.add(Node::Literal(text.clone().into_bytes())));
        let literals = literals.collect::<Result<_, _>>()?;
        let root = builder.add(Node::Either(literals))?;
        Ok(Self { all: builder.all, root })
    }

    /// JSON of a schema; the error says what cannot be kept.
    pub(super) fn schema(schema: &Value) -> Result<Self, String> {
        let mut builder = Builder { all: Vec::new(), known: HashMap::new(), schema };
        let root = builder.read(schema, "#")?;
        Ok(Self { all: builder.all, root })
    }

    /// Creates the nodes of a call of one of these tools, in the form that `text::Calls` parses. The error names the tool and
    /// the part that is not supported.
    pub(super) fn call(tools: &[&Tool]) -> Result<Self, String> {
        let mut builder = Builder { all: Vec::new(), known: HashMap::new(), schema: &Value::Null };
        let mut calls = Vec::with_capacity(tools.len());
        for tool in tools {
            let arguments = builder.arguments(tool).map_err(|reason| format!("{}: {reason}", tool.name))?;
            let name = Value::from(tool.name.as_str());
            let before = format!("{OPEN}\n{{\"name\": {name}, \"arguments\": ");
            let parts = [
                builder.add(Node::Literal(before.into_bytes()))?,
                arguments,
                builder.add(Node::Literal(format!("}}\n{CLOSE}").into_bytes()))?,
            ];
            calls.push(builder.add(Node::Sequence(parts.to_vec()))?);
        }
        let root = builder.add(Node::Either(calls))?;
        Ok(Self { all: builder.all, root })
    }

    pub(super) fn root(&self) -> Id {
        self.root
    }

    pub(super) fn get(&self, id: Id) -> &Node {
        &self.all[id.0]
    }
}

struct Builder<'a> {
    all: Vec<Node>,
    /// Nodes by their place in the schema, so that a schema may refer to itself.
    known: HashMap<String, Id>,
    schema: &'a Value,
}

impl<'a> Builder<'a> {
    fn add(&mut self, node: Node) -> Result<Id, String> {
        if self.all.len() >= MAX_NODES {
            return Err(format!("the schema has more than {MAX_NODES} parts"));
        }
        self.all.push(node);
        Ok(Id(self.all.len() - 1))
    }

    /// Returns the node of a tool's arguments. References are resolved in the tool's own schema.
    fn arguments(&mut self, tool: &'a Tool) -> Result<Id, String> {
        self.known.clear();
        self.schema = &tool.parameters;
        // Arguments are always an object, even if the schema does not restrict them.
        let says_nothing =
            |map: &Map<String, Value>| map.keys().all(|key| ANNOTATIONS.contains(&key.as_str()));
        if tool.parameters.as_object().is_some_and(says_nothing) {
            let values = self.any()?;
            return self.add(Node::Map { values });
        }
        let id = self.read(&tool.parameters, "#")?;
        if !self.are_objects(id, &mut HashSet::new()) {
            return Err("#: arguments are an object, and this schema allows other values".into());
        }
        Ok(id)
    }

    /// Whether every matching value is an object.
    fn are_objects(&self, id: Id, seen: &mut HashSet<usize>) -> bool {
        match &self.all[id.0] {
            Node::Map { .. } | Node::Object { .. } => true,
            Node::Literal(bytes) => bytes.starts_with(b"{"),
            // A node that leads back to itself adds no values.
            Node::Either(ids) => !seen.insert(id.0) || ids.iter().all(|id| self.are_objects(*id, seen)),
            _ => false,
        }
    }

    /// Any value.
    fn any(&mut self) -> Result<Id, String> {
        if let Some(known) = self.known.get("any") {
            return Ok(*known);
        }
        let any = self.add(Node::Either(Vec::new()))?;
        self.known.insert("any".into(), any);
        let mut kinds = Vec::new();
        for kind in ["object", "array", "string", "number", "boolean", "null"] {
            kinds.push(self.kind(kind, None, "any")?);
        }
        self.all[any.0] = Node::Either(kinds);
        Ok(any)
    }

    fn read(&mut self, schema: &'a Value, place: &str) -> Result<Id, String> {
        if let Some(known) = self.known.get(place) {
            return Ok(*known);
        }
        let map = match schema {
            Value::Bool(true) => return self.any(),
            Value::Object(map) => map,
            _ => return Err(format!("{place}: no value matches this schema")),
        };
        // The node is registered before it is read, because it may contain itself.
        let id = self.add(Node::Either(Vec::new()))?;
        self.known.insert(place.to_owned(), id);
        let inner = self.alternatives(map, place)?;
        self.all[id.0] = Node::Either(inner);
        Ok(id)
    }

    fn alternatives(&mut self, map: &'a Map<String, Value>, place: &str) -> Result<Vec<Id>, String> {
        let only = |allowed: &[&str]| {
            let other = map
                .keys()
                .find(|key| !allowed.contains(&key.as_str()) && !ANNOTATIONS.contains(&key.as_str()));
            other.map_or(Ok(()), |key| Err(format!("{place}: `{key}` is not supported by this engine here")))
        };
        let bounded = |count: usize| {
            if count == 0 || count > MAX_ALTERNATIVES {
                return Err(format!("{place}: {count} alternatives, expected 1 to {MAX_ALTERNATIVES}"));
            }
            Ok(())
        };
        if let Some(Value::String(target)) = map.get("$ref") {
            only(&["$ref"])?;
            let pointer = target
                .strip_prefix('#')
                .ok_or_else(|| format!("{place}: `$ref` refers to another document"))?;
            let schema = self.schema;
            let found = schema
                .pointer(pointer)
                .ok_or_else(|| format!("{place}: the target of `$ref`, {target}, does not exist"))?;
            return Ok(vec![self.read(found, target)?]);
        }
        if let Some(values) = map.get("enum") {
            only(&["enum", "type"])?;
            let values = values.as_array().ok_or_else(|| format!("{place}/enum: expected a list"))?;
            bounded(values.len())?;
            return values
                .iter()
                .map(|value| self.add(Node::Literal(value.to_string().into_bytes())))
                .collect();
        }
        if let Some(value) = map.get("const") {
            only(&["const", "type"])?;
            return Ok(vec![self.add(Node::Literal(value.to_string().into_bytes()))?]);
        }
        for word in ["anyOf", "allOf"] {
            let Some(schemas) = map.get(word) else { continue };
            only(&[word])?;
            let schemas = schemas.as_array().ok_or_else(|| format!("{place}/{word}: expected a list"))?;
            bounded(schemas.len())?;
            if word == "allOf" && schemas.len() > 1 {
                return Err(format!("{place}: `allOf` of several schemas is not supported by this engine"));
            }
            let read = |(number, schema)| self.read(schema, &format!("{place}/{word}/{number}"));
            return schemas.iter().enumerate().map(read).collect();
        }
        match map.get("type") {
            None if map.keys().all(|key| ANNOTATIONS.contains(&key.as_str())) => Ok(vec![self.any()?]),
            None if map.contains_key("properties") => Ok(vec![self.kind("object", Some(map), place)?]),
            None => {
                only(&[])?;
                Ok(Vec::new())
            }
            Some(Value::String(kind)) => Ok(vec![self.kind(kind, Some(map), place)?]),
            Some(Value::Array(kinds)) => {
                bounded(kinds.len())?;
                let kinds = kinds.iter().map(|kind| kind.as_str().unwrap_or_default());
                kinds.map(|kind| self.kind(kind, Some(map), place)).collect()
            }
            Some(_) => Err(format!("{place}/type: expected a text or a list of texts")),
        }
    }

    /// Returns the node of a value of one type.
    fn kind(&mut self, kind: &str, map: Option<&'a Map<String, Value>>, place: &str) -> Result<Id, String> {
        let words: &[&str] = match kind {
            "object" => &["properties", "required", "additionalProperties"],
            "array" => &["items", "minItems", "maxItems"],
            "string" => &["minLength", "maxLength"],
            _ => &[],
        };
        let all = [
            "properties",
            "required",
            "additionalProperties",
            "items",
            "minItems",
            "maxItems",
            "minLength",
            "maxLength",
        ];
        let get = |key: &str| map.and_then(|map| map.get(key));
        // A list of types may have the keywords of each type.
        let several = get("type").is_some_and(Value::is_array);
        let fits = |key: &str| {
            key == "type"
                || ANNOTATIONS.contains(&key)
                || words.contains(&key)
                || (several && all.contains(&key))
        };
        if let Some(key) = map.into_iter().flat_map(Map::keys).find(|key| !fits(key)) {
            return Err(format!("{place}: `{key}` is not supported by this engine here"));
        }
        let size = |key: &str, default: usize| match get(key) {
            None => Ok(default),
            Some(value) => value
                .as_u64()
                .and_then(|size| usize::try_from(size).ok())
                .ok_or_else(|| format!("{place}/{key}: expected a number of at least 0")),
        };
        let node = match kind {
            "null" => Node::Literal(b"null".to_vec()),
            "boolean" => {
                let literals =
                    [b"true".to_vec(), b"false".to_vec()].map(|bytes| self.add(Node::Literal(bytes)));
                Node::Either(literals.into_iter().collect::<Result<_, _>>()?)
            }
            "integer" | "number" => Node::Number { whole: kind == "integer" },
            "string" => Node::Text { least: size("minLength", 0)?, most: size("maxLength", usize::MAX)? },
            "array" => {
                let items = match get("items") {
                    Some(items) => self.read(items, &format!("{place}/items"))?,
                    None => self.any()?,
                };
                Node::List { items, least: size("minItems", 0)?, most: size("maxItems", usize::MAX)? }
            }
            "object" => self.object(map, place)?,
            other => return Err(format!("{place}/type: unknown type `{other}`")),
        };
        if let Node::Text { least, most } | Node::List { least, most, .. } = node
            && least > most
        {
            return Err(format!("{place}: at least {least} and at most {most}"));
        }
        self.add(node)
    }

    fn object(&mut self, map: Option<&'a Map<String, Value>>, place: &str) -> Result<Node, String> {
        let get = |key: &str| map.and_then(|map| map.get(key));
        let declared = match get("properties") {
            None => None,
            Some(Value::Object(properties)) => Some(properties),
            Some(_) => return Err(format!("{place}/properties: expected an object")),
        };
        let required: Vec<&str> = match get("required") {
            None => Vec::new(),
            Some(list) => {
                let names = list.as_array().map(|list| list.iter().map(Value::as_str).collect::<Option<_>>());
                names.flatten().ok_or_else(|| format!("{place}/required: expected a list of texts"))?
            }
        };
        let is_known = |name: &str| declared.is_some_and(|declared| declared.contains_key(name));
        if let Some(name) = required.iter().find(|name| !is_known(name)) {
            return Err(format!("{place}/required: `{name}` is not one of the properties"));
        }
        if declared.is_some_and(|declared| declared.len() > MAX_PROPERTIES) {
            return Err(format!("{place}: more than {MAX_PROPERTIES} properties"));
        }
        match (declared, get("additionalProperties")) {
            // Objects without additional properties satisfy the schema too.
            (Some(declared), _) if !declared.is_empty() => {
                let mut properties = Vec::new();
                for (name, schema) in declared {
                    let id = self.read(schema, &format!("{place}/properties/{}", escaped(name)))?;
                    let is_required = required.contains(&name.as_str());
                    properties.push((Value::from(name.as_str()).to_string().into_bytes(), id, is_required));
                }
                Ok(Node::Object { properties })
            }
            (_, Some(Value::Bool(false))) => Ok(Node::Object { properties: Vec::new() }),
            (_, None | Some(Value::Bool(true))) => Ok(Node::Map { values: self.any()? }),
            (_, Some(schema)) => {
                Ok(Node::Map { values: self.read(schema, &format!("{place}/additionalProperties"))? })
            }
        }
    }
}

/// Escapes a name for a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
