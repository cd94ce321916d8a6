//! The compiled form of an `openAPIV3Schema`: what pruning, defaulting and validation walk.

use std::{collections::BTreeMap, sync::OnceLock};

use regex::Regex;
use serde_json::Value;

use super::{cel::Rule, formats, patterns};

/// Deepest nesting that is compiled; below it a schema accepts anything. The reference has no limit, but its request
/// size limit keeps schemas far shallower, and the walkers here recurse.
const DEEPEST: usize = 100;

/// One node of a structural schema.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "they are the switches that OpenAPI has")]
pub(crate) struct Node {
    /// `type`, or the two types of an int-or-string.
    pub(crate) types: Vec<Box<str>>,
    pub(crate) nullable: bool,
    pub(crate) int_or_string: bool,
    /// `x-kubernetes-preserve-unknown-fields`
    pub(crate) preserve: bool,
    /// `x-kubernetes-embedded-resource`
    pub(crate) embedded: bool,
    pub(crate) list: ListType,
    pub(crate) properties: BTreeMap<Box<str>, Self>,
    pub(crate) additional: Additional,
    pub(crate) items: Option<Box<Self>>,
    pub(crate) required: Vec<Box<str>>,
    pub(crate) default: Option<Value>,
    pub(crate) bounds: Option<Box<Bounds>>,
    pub(crate) logic: Option<Box<Logic>>,
    pub(crate) rules: Vec<Rule>,
    /// What occurs at this node or below it, so that walks skip the rest.
    pub(crate) below: Below,
}

/// Which of the costlier features occur in a subtree.
#[derive(Debug, Default, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "a set of features")]
pub(crate) struct Below {
    pub(crate) rules: bool,
    pub(crate) defaults: bool,
    /// Sets and maps, whose items must be unique.
    pub(crate) lists: bool,
    pub(crate) embedded: bool,
}

/// `x-kubernetes-list-type`
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum ListType {
    #[default]
    Atomic,
    Set,
    /// With its keys.
    Map(Vec<Box<str>>),
}

/// `additionalProperties`
#[derive(Debug, Default)]
pub(crate) enum Additional {
    /// Absent or `false`: unknown fields are pruned.
    #[default]
    No,
    /// `true`: keys are kept, objects below them lose their fields (as in the reference).
    Any,
    Schema(Box<Node>),
}

/// Rules on single values.
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

/// A regular expression, compiled at its first use: a large definition has hundreds, a request meets few.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) source: Box<str>,
    compiled: OnceLock<Option<Regex>>,
}

/// Combinations of schemas.
#[derive(Debug, Default)]
pub(crate) struct Logic {
    pub(crate) all_of: Vec<Node>,
    pub(crate) any_of: Vec<Node>,
    pub(crate) one_of: Vec<Node>,
    pub(crate) not: Option<Node>,
}

// === impl Pattern ===

impl Pattern {
    fn new(source: &str) -> Self {
        Self { source: source.into(), compiled: OnceLock::new() }
    }

    /// Whether the pattern matches somewhere in `text`. A pattern that does not compile matches everything: the
    /// definition was checked when it was stored.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.compiled
            .get_or_init(|| patterns::compile(&self.source).ok())
            .as_ref()
            .is_none_or(|regex| regex.is_match(text))
    }
}

// === impl Node ===

impl Node {
    /// Compiles `schema`; anything that is not a schema accepts everything.
    pub(crate) fn compile(schema: &Value) -> Self {
        Self::at(schema, 0)
    }

    fn at(schema: &Value, depth: usize) -> Self {
        let Some(map) = schema.as_object().filter(|_| depth < DEEPEST) else {
            return Self { preserve: depth >= DEEPEST, ..Self::default() };
        };
        let mut node = Self::default();
        let mut bounds = Bounds::default();
        let mut bounded = false;
        let mut logic = Logic::default();
        let mut combined = false;
        for (key, value) in map {
            let mut bound = true;
            match key.as_str() {
                // The others, int32 and int64 among them, are for whoever reads the schema.
                "format" => bounds.format = value.as_str().filter(|f| formats::known(f)).map(Into::into),
                "minimum" => bounds.minimum = value.as_f64(),
                "maximum" => bounds.maximum = value.as_f64(),
                "exclusiveMinimum" => bounds.exclusive_minimum = value == true,
                "exclusiveMaximum" => bounds.exclusive_maximum = value == true,
                "multipleOf" => bounds.multiple_of = value.as_f64(),
                "minLength" => bounds.min_length = value.as_u64(),
                "maxLength" => bounds.max_length = value.as_u64(),
                "pattern" => bounds.pattern = value.as_str().map(Pattern::new),
                "minItems" => bounds.min_items = value.as_u64(),
                "maxItems" => bounds.max_items = value.as_u64(),
                "uniqueItems" => bounds.unique_items = value == true,
                "minProperties" => bounds.min_properties = value.as_u64(),
                "maxProperties" => bounds.max_properties = value.as_u64(),
                "enum" => bounds.values = value.as_array().cloned(),
                _ => bound = false,
            }
            if bound {
                bounded = true;
                continue;
            }
            combined |= matches!(key.as_str(), "allOf" | "anyOf" | "oneOf" | "not");
            match key.as_str() {
                "type" => {
                    node.types =
                        value.as_str().filter(|t| !t.is_empty()).map(Into::into).into_iter().collect();
                }
                "nullable" => node.nullable = value == true,
                "x-kubernetes-int-or-string" => node.int_or_string = value == true,
                "x-kubernetes-preserve-unknown-fields" => node.preserve = value == true,
                "x-kubernetes-embedded-resource" => node.embedded = value == true,
                "x-kubernetes-list-type" => {
                    node.list = list_type(value, map.get("x-kubernetes-list-map-keys"));
                }
                "required" => node.required = names(value),
                "default" => node.default = Some(value.clone()),
                "x-kubernetes-validations" => {
                    node.rules = value.as_array().into_iter().flatten().map(Rule::new).collect();
                }
                "properties" => {
                    node.properties = value
                        .as_object()
                        .into_iter()
                        .flatten()
                        .map(|(name, schema)| (name.as_str().into(), Self::at(schema, depth + 1)))
                        .collect();
                }
                "additionalProperties" => {
                    node.additional = match value {
                        Value::Bool(true) => Additional::Any,
                        Value::Object(_) => Additional::Schema(Box::new(Self::at(value, depth + 1))),
                        _ => Additional::No,
                    }
                }
                "items" => node.items = value.is_object().then(|| Box::new(Self::at(value, depth + 1))),
                "allOf" => logic.all_of = branches(value, depth),
                "anyOf" => logic.any_of = branches(value, depth),
                "oneOf" => logic.one_of = branches(value, depth),
                "not" => logic.not = Some(Self::at(value, depth + 1)),
                _ => {}
            }
        }
        if node.int_or_string && node.types.is_empty() {
            node.types = vec!["integer".into(), "string".into()];
        }
        node.bounds = bounded.then(|| Box::new(bounds));
        node.logic = combined.then(|| Box::new(logic));
        node.below = node.summary();
        node
    }

    fn summary(&self) -> Below {
        let mut below = Below {
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
        self.properties.values().chain(additional).chain(self.items.as_deref())
    }

    /// The schema of field `name`: a property, or that of additional ones.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(match &self.additional {
            Additional::Schema(node) => Some(node),
            Additional::No | Additional::Any => None,
        })
    }

    /// Name of the type for messages of CEL rules: `object`, `string`, …; empty for an int-or-string.
    pub(crate) fn type_name(&self) -> &str {
        match self.types.as_slice() {
            [one] => one,
            _ => "",
        }
    }
}

fn branches(value: &Value, depth: usize) -> Vec<Node> {
    value.as_array().into_iter().flatten().map(|schema| Node::at(schema, depth + 1)).collect()
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
