//! Provides the table as a schema.

use longboat_types::{ListKind, Shape, TypeDef, type_def};

use super::{Atom, FieldDeclaration, Node, Relation, Scalar};

pub(super) fn shape_atom<'a>(shape: &'static Shape) -> Atom<'a> {
    match shape {
        Shape::String | Shape::Bytes | Shape::Url => Atom::scalar(Scalar::String),
        Shape::Int32 | Shape::Int64 | Shape::Float => Atom::scalar(Scalar::Numeric),
        Shape::Boolean => Atom::scalar(Scalar::Boolean),
        Shape::Quantity | Shape::Time | Shape::MicroTime => Atom::scalar(Scalar::Any),
        // the reference's schema says nothing of its type
        Shape::IntOrString | Shape::Raw => Node::Untyped.atom(),
        Shape::Json | Shape::FieldSet | Shape::Schema => Node::Deduced.atom(),
        Shape::Message { name, atomic } => match type_def(name) {
            Some(def) => Atom::map(def.atomic || *atomic, Node::Type(def)),
            None => Node::Deduced.atom(),
        },
        Shape::List { element, kind } => {
            let relation = match kind {
                ListKind::Atomic => Relation::Atomic,
                ListKind::Set => Relation::Set,
                ListKind::Map(keys) => Relation::Keys(keys.clone()),
            };
            Atom::list(Node::Shape(element), relation)
        }
        Shape::Map { atomic, .. } => Atom::map(*atomic, Node::Shape(shape)),
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
