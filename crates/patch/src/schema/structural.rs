//! Provides a CRD's structural schema as a schema.

use serde_json::Value;

use longboat_types::type_def;

use super::{Atom, FieldDeclaration, List, Map, Node, Relation, Scalar};

pub(super) fn atom(schema: &Value, keeps_unknown: bool) -> Atom<'_> {
    let keeps_unknown = keeps_unknown || flag(schema, "x-kubernetes-preserve-unknown-fields");
    let map = || Map {
        atomic: schema["x-kubernetes-map-type"] == "atomic",
        place: Node::Custom { schema, keeps_unknown },
    };
    let scalar = |scalar| Atom { scalar: Some(scalar), list: None, map: None };
    match schema["type"].as_str() {
        Some("object") => Atom { scalar: None, list: None, map: Some(map()) },
        Some("array") => Atom { scalar: None, list: Some(list(schema, keeps_unknown)), map: None },
        Some("integer" | "number") => scalar(Scalar::Numeric),
        Some("boolean") => scalar(Scalar::Boolean),
        Some("string") => {
            let plain = matches!(schema["format"].as_str(), None | Some("" | "byte"));
            scalar(if plain { Scalar::String } else { Scalar::Any })
        }
        Some(_) => scalar(Scalar::Any),
        None => Atom { scalar: Some(Scalar::Any), list: Some(list(schema, keeps_unknown)), map: Some(map()) },
    }
}

fn list(schema: &Value, keeps_unknown: bool) -> List<'_> {
    let relation = match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => Relation::Set,
        Some("map") => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array();
            Relation::Keys(keys.into_iter().flatten().filter_map(Value::as_str).collect())
        }
        _ => Relation::Atomic,
    };
    let element = match schema.get("items") {
        Some(items) => Node::Custom { schema: items, keeps_unknown },
        None => Node::Untyped,
    };
    List { element, relation }
}

/// A field of the root. Metadata, kind and apiVersion are those of every object, whatever the schema declares.
pub(super) fn root_field<'a>(schema: &'a Value, name: &str) -> Option<FieldDeclaration<'a>> {
    match name {
        "metadata" | "apiVersion" | "kind" => object_field(name),
        _ => field(schema, flag(schema, "x-kubernetes-preserve-unknown-fields"), name),
    }
}

/// A field that every object has.
fn object_field<'a>(name: &str) -> Option<FieldDeclaration<'a>> {
    match name {
        "metadata" => type_def("meta.v1.ObjectMeta")
            .map(|def| FieldDeclaration { node: Node::Type(def), default: None }),
        _ => type_def("meta.v1.TypeMeta")?
            .field(name)
            .map(|field| FieldDeclaration { node: Node::Shape(&field.shape), default: None }),
    }
}

pub(super) fn field<'a>(schema: &'a Value, keeps_unknown: bool, name: &str) -> Option<FieldDeclaration<'a>> {
    if flag(schema, "x-kubernetes-embedded-resource")
        && let "metadata" | "apiVersion" | "kind" = name
    {
        return object_field(name);
    }
    let schema = schema.get("properties")?.get(name)?;
    Some(FieldDeclaration { node: Node::Custom { schema, keeps_unknown }, default: schema.get("default") })
}

pub(super) fn entries(schema: &Value, keeps_unknown: bool) -> Option<Node<'_>> {
    let keeps_unknown = keeps_unknown || flag(schema, "x-kubernetes-preserve-unknown-fields");
    match schema.get("additionalProperties") {
        None => (keeps_unknown || !has_properties(schema)).then_some(Node::Deduced),
        Some(Value::Bool(allowed)) => allowed.then_some(Node::Deduced),
        Some(inner) => Some(Node::Custom { schema: inner, keeps_unknown }),
    }
}

pub(super) fn has_properties(schema: &Value) -> bool {
    flag(schema, "x-kubernetes-embedded-resource")
        || schema["properties"].as_object().is_some_and(|properties| !properties.is_empty())
}

fn flag(schema: &Value, name: &str) -> bool {
    schema[name] == Value::Bool(true)
}
