//! The position of a merge in a type: the struct that declares the keys of an object.

use longboat_types::{Shape, Strategy, TypeDef, type_def};

use super::Error;

/// The type at the current position of a merge.
#[derive(Debug, Clone, Copy)]
pub(super) enum MergeType {
    /// A struct of the table.
    Struct(&'static TypeDef),
    /// The type of a field that is not a struct.
    Field(&'static Shape),
    /// An unknown type: objects merge, and lists are replaced.
    Free,
}

impl MergeType {
    fn of(shape: &'static Shape) -> Self {
        match shape {
            Shape::Message { name, .. } => type_def(name).map_or(Self::Free, Self::Struct),
            other => Self::Field(other),
        }
    }

    /// The type of the object under `key`, and how its field merges.
    pub(super) fn object(self, key: &str) -> Result<(Self, Strategy), Error> {
        match self {
            Self::Free => Ok((Self::Free, Strategy::default())),
            Self::Struct(def) => {
                let exact = def.field(key);
                let field =
                    exact.or_else(|| def.fields.iter().find(|field| field.name.eq_ignore_ascii_case(key)));
                match field {
                    Some(field) => Ok((Self::of(&field.shape), field.patch)),
                    None => Err(Error::UnknownField { owner: def.short_name(), field: key.to_owned() }),
                }
            }
            Self::Field(shape) => Err(match opaque(shape) {
                Some(owner) => Error::UnknownField { owner, field: key.to_owned() },
                None => Error::NotAStruct(go_kind(shape)),
            }),
        }
    }

    /// The type of the elements of the list under `key`, and how the list merges.
    pub(super) fn list(self, key: &str) -> Result<(Self, Strategy), Error> {
        let (place, strategy) = self.object(key)?;
        match place {
            Self::Free => Ok((Self::Free, strategy)),
            Self::Field(Shape::List { element, .. }) => Ok((Self::of(element), strategy)),
            _ => Err(Error::NotAList(self.kind_name())),
        }
    }

    /// The Go kind of this type.
    pub(super) fn kind_name(self) -> &'static str {
        match self {
            Self::Struct(_) | Self::Free => "struct",
            Self::Field(shape) => go_kind(shape),
        }
    }
}

/// The name of a Go struct whose fields are not visible in JSON.
fn opaque(shape: &Shape) -> Option<&'static str> {
    Some(match shape {
        Shape::Raw => "RawExtension",
        Shape::Json | Shape::Schema => "JSON",
        Shape::FieldSet => "FieldsV1",
        Shape::Quantity => "Quantity",
        Shape::Time => "Time",
        Shape::MicroTime => "MicroTime",
        Shape::IntOrString => "IntOrString",
        Shape::Url => "URL",
        _ => return None,
    })
}

fn go_kind(shape: &Shape) -> &'static str {
    match shape {
        Shape::String => "string",
        Shape::Int32 => "int32",
        Shape::Int64 => "int64",
        Shape::Float => "float64",
        Shape::Boolean => "bool",
        Shape::Bytes | Shape::List { .. } => "slice",
        Shape::Map { .. } => "map",
        _ => "struct",
    }
}
