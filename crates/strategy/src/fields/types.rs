//! The fields of the Kubernetes types, as far as decoding needs them.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, LazyLock},
};

use parking_lot::RwLock;
use serde_json::Value;

use super::kinds::{DEFINITIONS, definitions};

/// The fields of one type.
#[derive(Debug)]
pub(super) struct Type {
    /// The name in Go, without its package: `DeploymentSpec`.
    pub(super) name: Box<str>,
    pub(super) fields: BTreeMap<Box<str>, Shape>,
}

/// The type of a field.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    /// A type by its full name.
    Struct(Arc<str>),
    List(Box<Self>),
    Map(Box<Self>),
    /// A schema or another value, as in the schema of a CustomResourceDefinition.
    StructOr(Arc<str>),
    Text,
    Bytes,
    Time,
    MicroTime,
    Int32,
    Int64,
    Float,
    Bool,
    IntOrString,
    Quantity,
    Any,
}

#[derive(Default)]
struct Cache {
    types: HashMap<Arc<str>, Arc<Type>>,
    roots: HashMap<(String, String, String), Option<Arc<str>>>,
}

static CACHE: LazyLock<RwLock<Cache>> = LazyLock::new(RwLock::default);

/// Returns the type of a built-in kind.
pub(super) fn root(group: &str, version: &str, kind: &str) -> Option<Arc<Type>> {
    let key = (group.to_owned(), version.to_owned(), kind.to_owned());
    // The read lock must be released before the function takes a lock again: with a writer waiting in between, two nested
    // locks would deadlock.
    let known = CACHE.read().roots.get(&key).cloned();
    if let Some(root) = known {
        return named(root.as_ref()?);
    }
    let Some(found) = definitions(group, version, kind) else {
        CACHE.write().roots.insert(key, None);
        return None;
    };
    let name: Arc<str> = found.root.into();
    let mut cache = CACHE.write();
    for (name, schema) in &found.all {
        if !cache.types.contains_key(name.as_str()) {
            cache.types.insert(name.as_str().into(), Arc::new(read(name, schema)));
        }
    }
    let root = cache.types.get(&name).cloned();
    cache.roots.insert(key, Some(name));
    root
}

/// Returns a type that an earlier call of `root` has read.
pub(super) fn named(name: &Arc<str>) -> Option<Arc<Type>> {
    CACHE.read().types.get(name).cloned()
}

fn read(name: &str, schema: &Value) -> Type {
    Type {
        name: short(name).into(),
        fields: schema["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(field, schema)| (field.as_str().into(), shape(schema)))
            .collect(),
    }
}

fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

fn shape(schema: &Value) -> Shape {
    if let Some(name) = schema["$ref"].as_str().and_then(|r| r.strip_prefix(DEFINITIONS)) {
        return match short(name) {
            "IntOrString" => Shape::IntOrString,
            "Quantity" => Shape::Quantity,
            "Time" => Shape::Time,
            "MicroTime" => Shape::MicroTime,
            "RawExtension" | "FieldsV1" | "JSON" => Shape::Any,
            "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrStringArray" => {
                Shape::StructOr(name.replace(short(name), "JSONSchemaProps").into())
            }
            _ => Shape::Struct(name.into()),
        };
    }
    match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("string"), Some("byte")) => Shape::Bytes,
        (Some("string"), _) => Shape::Text,
        (Some("integer"), Some("int32")) => Shape::Int32,
        (Some("integer"), _) => Shape::Int64,
        (Some("number"), _) => Shape::Float,
        (Some("boolean"), _) => Shape::Bool,
        (Some("array"), _) => Shape::List(Box::new(shape(&schema["items"]))),
        (Some("object"), _) if schema["additionalProperties"].is_object() => {
            Shape::Map(Box::new(shape(&schema["additionalProperties"])))
        }
        _ => Shape::Any,
    }
}

// === impl Shape ===

impl Shape {
    /// The Go type, for messages.
    pub(super) fn go(&self) -> String {
        match self {
            Self::Struct(name) | Self::StructOr(name) => {
                let mut parts = name.rsplit('.');
                let (short, package) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
                format!("{package}.{short}")
            }
            Self::List(item) => format!("[]{}", item.go()),
            Self::Map(value) if matches!(**value, Self::Quantity) => "v1.ResourceList".to_owned(),
            Self::Map(value) => format!("map[string]{}", value.go()),
            Self::Text | Self::Time | Self::MicroTime | Self::Quantity => "string".to_owned(),
            Self::Bytes => "[]uint8".to_owned(),
            Self::Int32 | Self::IntOrString => "int32".to_owned(),
            Self::Int64 => "int64".to_owned(),
            Self::Float => "float64".to_owned(),
            Self::Bool => "bool".to_owned(),
            Self::Any => "interface {}".to_owned(),
        }
    }
}
