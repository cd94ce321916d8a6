//! Schemas for server-side apply: every place is a scalar, a list, a map, or may be any of them.

mod builtin;
mod structural;

use longboat_schema::Node as Structural;
use longboat_types::{Shape, TypeDef};
use serde_json::Value;

/// A place in a schema. Cheap to copy: it borrows the table or a CRD's schema.
#[derive(Debug, Clone, Copy)]
pub enum Node<'a> {
    /// A struct of the table.
    Type(&'static TypeDef),
    /// The type of a field of the table.
    Shape(&'static Shape),
    /// The root of a CRD's `openAPIV3Schema`. Its metadata has the same schema as that of every object.
    CustomRoot {
        /// The schema.
        schema: &'a Structural,
    },
    /// A place in a CRD's `openAPIV3Schema`.
    Custom {
        /// The schema of this place.
        schema: &'a Structural,
        /// Whether an enclosing schema preserves unknown fields.
        keeps_unknown: bool,
    },
    /// Any JSON. Maps merge by entry, and lists are atomic.
    Deduced,
    /// Any JSON, which is atomic.
    Untyped,
}

/// The forms that a value may have at a place.
#[derive(Debug, Clone, Default)]
pub struct Atom<'a> {
    /// A scalar of this type.
    pub scalar: Option<Scalar>,
    /// A list.
    pub list: Option<List<'a>>,
    /// A map or struct.
    pub map: Option<Map<'a>>,
}

/// Types of scalars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    /// Integer or float.
    Numeric,
    /// String.
    String,
    /// Boolean.
    Boolean,
    /// Any of them.
    Any,
}

/// A list.
#[derive(Debug, Clone)]
pub struct List<'a> {
    /// The schema of its elements.
    pub element: Node<'a>,
    /// How it merges.
    pub relation: Relation<'a>,
}

/// How a list merges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Relation<'a> {
    /// As one value.
    Atomic,
    /// Element by element.
    Set,
    /// By these keys of its elements.
    Keys(Vec<&'a str>),
}

/// A map or struct.
#[derive(Debug, Clone)]
pub struct Map<'a> {
    /// Whether the whole map is atomic.
    pub atomic: bool,
    place: Node<'a>,
}

/// A field that a struct declares.
#[derive(Debug, Clone, Copy)]
pub struct FieldDeclaration<'a> {
    /// The schema of its value.
    pub node: Node<'a>,
    /// The default value of the field if it is a list key that was omitted.
    pub default: Option<&'a Value>,
}

impl<'a> Node<'a> {
    /// The forms that a value may have at this place.
    pub(crate) fn atom(self) -> Atom<'a> {
        match self {
            Self::Type(def) => Atom::map(def.atomic, self),
            Self::Shape(shape) => builtin::shape_atom(shape),
            Self::CustomRoot { .. } => Atom::map(false, self),
            Self::Custom { schema, keeps_unknown } => structural::atom(schema, keeps_unknown),
            Self::Deduced => any(self, false),
            Self::Untyped => any(self, true),
        }
    }
}

impl<'a> Atom<'a> {
    fn map(atomic: bool, place: Node<'a>) -> Self {
        Self { map: Some(Map { atomic, place }), ..Self::default() }
    }

    fn scalar(scalar: Scalar) -> Self {
        Self { scalar: Some(scalar), ..Self::default() }
    }

    fn list(element: Node<'a>, relation: Relation<'a>) -> Self {
        Self { list: Some(List { element, relation }), ..Self::default() }
    }
}

fn any(place: Node<'_>, atomic: bool) -> Atom<'_> {
    Atom {
        scalar: Some(Scalar::Any),
        list: Some(List { element: Node::Untyped, relation: Relation::Atomic }),
        map: Some(Map { atomic, place }),
    }
}

impl<'a> Map<'a> {
    /// The field of this name, if the struct declares one.
    pub fn field(&self, name: &str) -> Option<FieldDeclaration<'a>> {
        match self.place {
            Node::Type(def) => builtin::field(def, name),
            Node::CustomRoot { schema } => structural::root_field(schema, name),
            Node::Custom { schema, keeps_unknown } => structural::field(schema, keeps_unknown, name),
            Node::Shape(_) | Node::Deduced | Node::Untyped => None,
        }
    }

    /// The schema of entries that are not declared. Returns `None` if such entries are not allowed.
    pub fn other(&self) -> Option<Node<'a>> {
        match self.place {
            Node::Type(_) => None,
            Node::Shape(shape) => builtin::entries(shape),
            Node::CustomRoot { schema } | Node::Custom { schema, keeps_unknown: false } => {
                structural::entries(schema, false)
            }
            Node::Custom { schema, keeps_unknown: true } => structural::entries(schema, true),
            Node::Deduced => Some(Node::Deduced),
            Node::Untyped => Some(Node::Untyped),
        }
    }

    /// The schema of the entry with this name. Returns `None` if the entry is not allowed.
    pub fn entry(&self, name: &str) -> Option<Node<'a>> {
        self.field(name).map(|field| field.node).or_else(|| self.other())
    }

    /// Whether there is no schema, so that the fields are deduced from the value.
    pub(crate) fn is_deduced(&self) -> bool {
        match self.place {
            Node::Deduced => true,
            Node::Custom { schema, .. } => {
                !structural::has_fields(schema) && matches!(self.other(), Some(Node::Deduced))
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
