//! The compiled form of an `openAPIV3Schema`, which pruning, defaulting and validation walk.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, OnceLock},
};

use regex::Regex;
use serde_json::{Value, value::RawValue};

use super::{
    cel::{identifier::identifiers, rule::Rule, rules::Rules},
    formats, patterns,
    properties::Properties,
};

/// The deepest nesting that is compiled. Below it, a schema accepts anything. The reference has no limit, but its limit on
/// the size of requests keeps schemas far shallower, and the walks here are recursive.
const MAX_DEPTH: usize = 100;

/// One node of a structural schema: the schema of an object, or of a field, entry or item in it.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "they are the switches that OpenAPI has")]
pub struct Node {
    /// `type`, or the two types of an int-or-string.
    pub(crate) types: Vec<Box<str>>,
    pub(crate) nullable: bool,
    pub(crate) int_or_string: bool,
    /// `x-kubernetes-preserve-unknown-fields`
    pub preserve: bool,
    /// `x-kubernetes-embedded-resource`
    pub embedded: bool,
    /// Whether `x-kubernetes-map-type` is `atomic`.
    pub atomic_map: bool,
    /// Whether there is a `format` other than `byte`.
    pub formatted: bool,
    /// `x-kubernetes-list-type` with its keys.
    pub list: ListType,
    pub(crate) properties: Properties<Self>,
    /// Which entries a map may have beside the properties.
    pub additional: Additional,
    /// The schema of a list's items.
    pub items: Option<Arc<Self>>,
    pub(crate) required: Vec<Box<str>>,
    /// The default value.
    pub default: Option<Value>,
    pub(crate) bounds: Option<Box<Bounds>>,
    pub(crate) logic: Option<Box<Logic>>,
    pub(crate) rules: Rules,
    /// The features at this node or below it, so that walks can skip subtrees.
    pub(crate) below: SubtreeFeatures,
}

/// The more expensive features that a subtree has.
#[derive(Debug, Default, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "a set of features")]
pub(crate) struct SubtreeFeatures {
    pub(crate) rules: bool,
    pub(crate) defaults: bool,
    /// Lists of type set and map, whose items must be unique.
    pub(crate) lists: bool,
    pub(crate) embedded: bool,
}

/// `x-kubernetes-list-type`
#[derive(Debug, Default, PartialEq, Eq)]
pub enum ListType {
    /// One value.
    #[default]
    Atomic,
    /// Items are unique.
    Set,
    /// With its keys.
    Map(Vec<Box<str>>),
}

/// `additionalProperties`
#[derive(Debug, Default)]
pub enum Additional {
    /// Absent or `false`: unknown fields are pruned.
    #[default]
    No,
    /// `true`: keys are kept, objects below them lose their fields (as in the reference).
    Any,
    /// The schema of entries.
    Schema(Arc<Node>),
}

/// Limits on single values.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) format: Option<Box<str>>,
    pub(crate) minimum: Option<f64>,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) exclusive_maximum: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) min_length: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_items: Option<u64>,
    pub(crate) unique_items: bool,
    pub(crate) min_properties: Option<u64>,
    pub(crate) max_properties: Option<u64>,
    pub(crate) values: Option<Vec<Value>>,
}

/// A regular expression. It is compiled when it is first used: a large definition has hundreds of them, and a request needs
/// few.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) source: Box<str>,
    compiled: OnceLock<Option<Regex>>,
}

/// Combinations of schemas.
#[derive(Debug, Default)]
pub(crate) struct Logic {
    pub(crate) all_of: Vec<Arc<Node>>,
    pub(crate) any_of: Vec<Arc<Node>>,
    pub(crate) one_of: Vec<Arc<Node>>,
    pub(crate) not: Option<Arc<Node>>,
}

/// Compiles a schema part by part. Parts with the same text become the same node: the schema of a service has a pod's schema
/// five times, and each of these has a container's schema three times.
#[derive(Default)]
struct Compiler<'a> {
    known: HashMap<&'a str, CompiledNode, ahash::RandomState>,
}

#[derive(Clone)]
struct CompiledNode {
    node: Arc<Node>,
    /// The number of levels below it, limited to [`MAX_DEPTH`].
    height: usize,
}

/// The keys of a schema, with their values as text.
type Keys<'a> = BTreeMap<String, &'a RawValue>;

// === impl Pattern ===

impl Pattern {
    fn new(source: &str) -> Self {
        Self { source: source.into(), compiled: OnceLock::new() }
    }

    /// Whether the pattern matches anywhere in `text`. A pattern that does not compile matches everything: the definition was
    /// checked when it was written.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.compiled
            .get_or_init(|| patterns::compile(&self.source).ok())
            .as_ref()
            .is_none_or(|regex| regex.is_match(text))
    }
}

// === impl Bounds ===

impl Bounds {
    /// Sets a limit from a key of a schema. Returns whether the key is one of these limits.
    fn set(&mut self, key: &str, value: &Value) -> bool {
        match key {
            // Other formats, such as int32 and int64, are only information for readers of the schema.
            "format" => self.format = value.as_str().filter(|f| formats::known(f)).map(Into::into),
            "minimum" => self.minimum = value.as_f64(),
            "maximum" => self.maximum = value.as_f64(),
            "exclusiveMinimum" => self.exclusive_minimum = value == true,
            "exclusiveMaximum" => self.exclusive_maximum = value == true,
            "multipleOf" => self.multiple_of = value.as_f64(),
            "minLength" => self.min_length = value.as_u64(),
            "maxLength" => self.max_length = value.as_u64(),
            "pattern" => self.pattern = value.as_str().map(Pattern::new),
            "minItems" => self.min_items = value.as_u64(),
            "maxItems" => self.max_items = value.as_u64(),
            "uniqueItems" => self.unique_items = value == true,
            "minProperties" => self.min_properties = value.as_u64(),
            "maxProperties" => self.max_properties = value.as_u64(),
            "enum" => self.values = value.as_array().cloned(),
            _ => return false,
        }
        true
    }
}

// === impl Node ===

impl Node {
    /// Compiles a schema from its JSON text. A text that is not a schema accepts everything.
    pub(crate) fn compile(schema: &str) -> Arc<Self> {
        Compiler::default().at(schema, 0).node
    }

    /// Sets a field from a key of the schema.
    fn set(&mut self, key: &str, value: Value, keys: &Keys<'_>) {
        match key {
            "type" => {
                self.types = value.as_str().filter(|t| !t.is_empty()).map(Into::into).into_iter().collect();
            }
            "nullable" => self.nullable = value == true,
            "x-kubernetes-int-or-string" => self.int_or_string = value == true,
            "x-kubernetes-preserve-unknown-fields" => self.preserve = value == true,
            "x-kubernetes-embedded-resource" => self.embedded = value == true,
            "x-kubernetes-map-type" => self.atomic_map = value == "atomic",
            "x-kubernetes-list-type" => {
                let keys = keys.get("x-kubernetes-list-map-keys");
                self.list =
                    list_type(&value, keys.and_then(|keys| serde_json::from_str(keys.get()).ok()).as_ref());
            }
            "required" => self.required = names(&value),
            "default" => self.default = Some(value),
            "x-kubernetes-validations" => {
                self.rules = value.as_array().into_iter().flatten().map(Rule::new).collect();
            }
            _ => {}
        }
    }

    fn summary(&self) -> SubtreeFeatures {
        let mut below = SubtreeFeatures {
            rules: !self.rules.is_empty(),
            defaults: self.default.is_some(),
            lists: self.list != ListType::Atomic,
            embedded: self.embedded,
        };
        for child in self.children() {
            below.rules |= child.below.rules;
            below.defaults |= child.below.defaults;
            below.lists |= child.below.lists;
            below.embedded |= child.below.embedded;
        }
        below
    }

    fn children(&self) -> impl Iterator<Item = &Self> {
        let additional = match &self.additional {
            Additional::Schema(node) => Some(&**node),
            Additional::No | Additional::Any => None,
        };
        self.properties.iter().map(|(_, node)| node).chain(additional).chain(self.items.as_deref())
    }

    /// The schema of the field `name`: that of a property, or of additional properties.
    pub fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(match &self.additional {
            Additional::Schema(node) => Some(node),
            Additional::No | Additional::Any => None,
        })
    }

    /// The schema of the property that an expression calls `name`.
    pub(crate) fn property_in_cel(&self, name: &str) -> Option<&Self> {
        let mut properties = self.properties.iter();
        properties.find(|(known, _)| identifiers(known).any(|known| known == name)).map(|(_, child)| child)
    }

    /// The name of the type: `object`, `string`, …; empty for an int-or-string, and for a schema without a type.
    pub fn type_name(&self) -> &str {
        match self.types.as_slice() {
            [one] => one,
            _ => "",
        }
    }

    /// The schema of a property.
    pub fn property(&self, name: &str) -> Option<&Self> {
        self.properties.get(name)
    }

    /// The names of the properties, short ones first.
    pub fn property_names(&self) -> impl Iterator<Item = &str> {
        self.properties.iter().map(|(name, _)| name)
    }
}

// === impl Compiler ===

impl<'a> Compiler<'a> {
    fn at(&mut self, schema: &'a str, depth: usize) -> CompiledNode {
        // A part that fits at one depth may have to be cut at a greater one.
        if let Some(known) = self.known.get(schema).filter(|known| depth + known.height < MAX_DEPTH) {
            return known.clone();
        }
        let Some(keys) = serde_json::from_str::<Keys<'_>>(schema).ok().filter(|_| depth < MAX_DEPTH) else {
            let cut = depth >= MAX_DEPTH;
            let node = Arc::new(Node { preserve: cut, ..Node::default() });
            return CompiledNode { node, height: if cut { MAX_DEPTH } else { 0 } };
        };
        let mut parts = Parts { compiler: self, depth, height: 0 };
        let node = Arc::new(parts.node(&keys));
        let compiled = CompiledNode { node, height: parts.height };
        self.known.insert(schema, compiled.clone());
        compiled
    }
}

/// The nested schemas of a schema.
struct Parts<'c, 'a> {
    compiler: &'c mut Compiler<'a>,
    /// The depth of the enclosing schema.
    depth: usize,
    /// The height of the enclosing schema, as far as it is known.
    height: usize,
}

// === impl Parts ===

impl<'a> Parts<'_, 'a> {
    fn schema(&mut self, schema: &'a RawValue) -> Arc<Node> {
        let CompiledNode { node, height } = self.compiler.at(schema.get(), self.depth + 1);
        self.height = self.height.max((height + 1).min(MAX_DEPTH));
        node
    }

    fn list(&mut self, schemas: &'a RawValue) -> Vec<Arc<Node>> {
        let schemas: Vec<&RawValue> = serde_json::from_str(schemas.get()).unwrap_or_default();
        schemas.into_iter().map(|schema| self.schema(schema)).collect()
    }

    fn by_name(&mut self, schemas: &'a RawValue) -> Properties<Node> {
        let schemas: Keys<'_> = serde_json::from_str(schemas.get()).unwrap_or_default();
        schemas.into_iter().map(|(name, schema)| (name.into(), self.schema(schema))).collect()
    }

    fn node(&mut self, keys: &Keys<'a>) -> Node {
        let mut node = Node::default();
        let mut bounds = Bounds::default();
        let mut bounded = false;
        let mut logic = Logic::default();
        let mut combined = false;
        for (key, &text) in keys {
            match key.as_str() {
                "properties" => node.properties = self.by_name(text),
                "additionalProperties" => {
                    node.additional = match text.get().as_bytes().first() {
                        Some(b't') => Additional::Any,
                        Some(b'{') => Additional::Schema(self.schema(text)),
                        _ => Additional::No,
                    }
                }
                "items" => node.items = text.get().starts_with('{').then(|| self.schema(text)),
                "allOf" => logic.all_of = self.list(text),
                "anyOf" => logic.any_of = self.list(text),
                "oneOf" => logic.one_of = self.list(text),
                "not" => logic.not = Some(self.schema(text)),
                "description" => {}
                key => {
                    // A value that is nested too deeply becomes null.
                    let value: Value = serde_json::from_str(text.get()).unwrap_or_default();
                    node.formatted |= key == "format"
                        && value.as_str().is_some_and(|format| !matches!(format, "" | "byte"));
                    if bounds.set(key, &value) {
                        bounded = true;
                    } else {
                        node.set(key, value, keys);
                    }
                }
            }
            combined |= matches!(key.as_str(), "allOf" | "anyOf" | "oneOf" | "not");
        }
        if node.int_or_string && node.types.is_empty() {
            node.types = vec!["integer".into(), "string".into()];
        }
        node.bounds = bounded.then(|| Box::new(bounds));
        node.logic = combined.then(|| Box::new(logic));
        node.below = node.summary();
        node
    }
}

fn names(value: &Value) -> Vec<Box<str>> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect()
}

fn list_type(value: &Value, keys: Option<&Value>) -> ListType {
    match value.as_str() {
        Some("set") => ListType::Set,
        Some("map") => ListType::Map(keys.map(names).unwrap_or_default()),
        _ => ListType::Atomic,
    }
}
