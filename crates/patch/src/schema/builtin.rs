//! Provides the table as a schema.

use longboat_types::{ListKind, Shape, TypeDef, type_def};

use super::{Atom, FieldDeclaration, List, Map, Node, Relation, Scalar};

pub(super) fn type_atom<'a>(def: &'static TypeDef) -> Atom<'a> {
    Atom { scalar: None, list: None, map: Some(Map { atomic: def.atomic, place: Node::Type(def) }) }
}

pub(super) fn shape_atom<'a>(shape: &'static Shape) -> Atom<'a> {
    let scalar = |scalar| Atom { scalar: Some(scalar), list: None, map: None };
    match shape {
        Shape::String | Shape::Bytes | Shape::Url => scalar(Scalar::String),
        Shape::Int32 | Shape::Int64 | Shape::Float => scalar(Scalar::Numeric),
        Shape::Boolean => scalar(Scalar::Boolean),
        Shape::Quantity | Shape::Time | Shape::MicroTime => scalar(Scalar::Any),
        // the reference's schema says nothing of its type
        Shape::IntOrString | Shape::Raw => Node::Untyped.atom(),
        Shape::Json | Shape::FieldSet | Shape::Schema => Node::Deduced.atom(),
        Shape::Message { name, atomic } => match type_def(name) {
            Some(def) => Atom {
                scalar: None,
                list: None,
                map: Some(Map { atomic: def.atomic || *atomic, place: Node::Type(def) }),
            },
            None => Node::Deduced.atom(),
        },
        Shape::List { element, kind } => Atom {
            scalar: None,
            list: Some(List {
                element: Node::Shape(element),
                relation: match kind {
                    ListKind::Atomic => Relation::Atomic,
                    ListKind::Set => Relation::Set,
                    ListKind::Map(keys) => Relation::Keys(keys.clone()),
                },
            }),
            map: None,
        },
        Shape::Map { atomic, .. } => {
            Atom { scalar: None, list: None, map: Some(Map { atomic: *atomic, place: Node::Shape(shape) }) }
        }
    }
}

pub(super) fn field<'a>(def: &'static TypeDef, name: &str) -> Option<FieldDeclaration<'a>> {
    def.field(name).map(|field| FieldDeclaration {
        node: Node::Shape(&field.shape),
        default: field.key_default.as_ref(),
    })
}

pub(super) fn entries<'a>(shape: &'static Shape) -> Option<Node<'a>> {
    match shape {
        Shape::Map { value, .. } => Some(Node::Shape(value)),
        _ => None,
    }
}
