//! Strategic merge patch, with apimachinery's semantics and error texts.

mod diff;
mod error;
mod merge;
mod merge_type;
mod order;

use serde_json::Value;

use crate::table::type_def;

pub use error::Error;
use merge_type::MergeType;

const DIRECTIVE: &str = "$patch";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const RETAIN_KEYS: &str = "$retainKeys";
const ELEMENT_ORDER: &str = "$setElementOrder";

/// Applies a strategic merge patch to an object of the table's type `type_name` and returns what came of it.
///
/// Fields that are scalars need no type; a list or an object on both sides must be a field of the type.
pub fn merge(base: Value, patch: Value, type_name: &str) -> Result<Value, Error> {
    let (Value::Object(base), Value::Object(patch)) = (base, patch) else { return Err(Error::NotAnObject) };
    merge::objects(base, patch, place(type_name)?).map(Value::Object)
}

/// Computes the patch that makes `modified` from `original`: both objects of the table's type `type_name`.
pub fn two_way(original: &Value, modified: &Value, type_name: &str) -> Result<Value, Error> {
    let (Value::Object(original), Value::Object(modified)) = (original, modified) else {
        return Err(Error::NotAnObject);
    };
    diff::objects(original, modified, place(type_name)?, false).map(Value::Object)
}

fn place(type_name: &str) -> Result<MergeType, Error> {
    type_def(type_name).map(MergeType::Struct).ok_or_else(|| Error::UnknownType(type_name.to_owned()))
}

#[cfg(test)]
mod tests;
