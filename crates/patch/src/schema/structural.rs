//! Provides a CRD's structural schema as a schema.

use longboat_schema::{Additional, ListType, Node as Structural};
use longboat_types::type_def;

use super::{Atom, FieldDeclaration, List, Map, Node, Relation, Scalar};

pub(super) fn atom(schema: &Structural, keeps_unknown: bool) -> Atom<'_> {
    let keeps_unknown = keeps_unknown || schema.preserve;
    let map = Map { atomic: schema.atomic_map, place: Node::Custom { schema, keeps_unknown } };
    match schema.type_name() {
        "object" => Atom { map: Some(map), ..Atom::default() },
        "array" => Atom { list: Some(list(schema, keeps_unknown)), ..Atom::default() },
        "integer" | "number" => Atom::scalar(Scalar::Numeric),
        "boolean" => Atom::scalar(Scalar::Boolean),
        "string" if !schema.formatted => Atom::scalar(Scalar::String),
        "" => Atom { scalar: Some(Scalar::Any), list: Some(list(schema, keeps_unknown)), map: Some(map) },
        _ => Atom::scalar(Scalar::Any),
    }
}

fn list(schema: &Structural, keeps_unknown: bool) -> List<'_> {
    let relation = match &schema.list {
        ListType::Atomic => Relation::Atomic,
        ListType::Set => Relation::Set,
        ListType::Map(keys) => Relation::Keys(keys.iter().map(|key| &**key).collect()),
    };
    let element = match schema.items.as_deref() {
        Some(schema) => Node::Custom { schema, keeps_unknown },
        None => Node::Untyped,
    };
    List { element, relation }
}

/// A field of the root. Metadata, kind and apiVersion are those of every object, whatever the schema declares.
pub(super) fn root_field<'a>(schema: &'a Structural, name: &str) -> Option<FieldDeclaration<'a>> {
    match name {
        "metadata" | "apiVersion" | "kind" => object_field(name),
        _ => field(schema, schema.preserve, name),
    }
}

pub(super) fn field<'a>(
    schema: &'a Structural,
    keeps_unknown: bool,
    name: &str,
) -> Option<FieldDeclaration<'a>> {
    if schema.embedded
        && let "metadata" | "apiVersion" | "kind" = name
    {
        return object_field(name);
    }
    let schema = schema.property(name)?;
    Some(FieldDeclaration { node: Node::Custom { schema, keeps_unknown }, default: schema.default.as_ref() })
}

pub(super) fn entries(schema: &Structural, keeps_unknown: bool) -> Option<Node<'_>> {
    let keeps_unknown = keeps_unknown || schema.preserve;
    match &schema.additional {
        Additional::No => (keeps_unknown || !has_fields(schema)).then_some(Node::Deduced),
        Additional::Any => Some(Node::Deduced),
        Additional::Schema(schema) => Some(Node::Custom { schema, keeps_unknown }),
    }
}

pub(super) fn has_fields(schema: &Structural) -> bool {
    schema.embedded || schema.property_names().next().is_some()
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
