//! Objects with a schema: whether they match it, which fields they have, how two of them differ or merge.
//!
//! The rules are those of structured-merge-diff, which kube-apiserver uses; its error texts reach users.

mod compare;
mod error;
mod field_set;
mod item;
mod merge;
mod presence;
mod reconcile;
mod remove;
mod validate;

pub use compare::{Comparison, compare};
pub use error::SchemaError;
pub use field_set::{field_set, with_named_members};
pub use merge::merge;
pub use presence::inflate;
pub use reconcile::reconcile;
pub use remove::remove;
pub use validate::validate;

use serde_json::Value;

use crate::schema::Atom;

/// The form in which an atom's value is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Map,
    Scalar,
    List,
}

/// Returns the form in which a value is handled: its own form if the atom has it, or else the first form of the atom.
fn form(atom: &Atom<'_>, value: Option<&Value>) -> Form {
    match value {
        Some(Value::Number(_) | Value::String(_) | Value::Bool(_)) if atom.scalar.is_some() => Form::Scalar,
        Some(Value::Array(_)) if atom.list.is_some() => Form::List,
        _ if atom.map.is_some() => Form::Map,
        _ if atom.scalar.is_some() => Form::Scalar,
        _ => Form::List,
    }
}

/// Whether two values are handled by the same part of the atom: if the atom has the form of a value, the value is handled
/// only in that form.
fn same_view(atom: &Atom<'_>, left: Option<&Value>, right: Option<&Value>) -> bool {
    let forms = [atom.scalar.is_some(), atom.list.is_some(), atom.map.is_some()];
    if forms.iter().filter(|has| **has).count() <= 1 {
        return true;
    }
    let narrowed = |value: Option<&Value>| match value {
        Some(Value::Number(_) | Value::String(_) | Value::Bool(_)) if forms[0] => Some(Form::Scalar),
        Some(Value::Array(_)) if forms[1] => Some(Form::List),
        Some(Value::Object(_)) if forms[2] => Some(Form::Map),
        _ => None,
    };
    narrowed(left) == narrowed(right)
}

#[cfg(test)]
mod tests;
