//! Strategic merge patch, with apimachinery's semantics and error texts.

mod error;
mod merge;
mod merge_type;
mod order;

use serde_json::Value;

use longboat_types::type_def;

pub use error::Error;
pub use merge::discard_nulls;
use merge_type::MergeType;

const DIRECTIVE: &str = "$patch";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const RETAIN_KEYS: &str = "$retainKeys";
const ELEMENT_ORDER: &str = "$setElementOrder";

/// Applies a strategic merge patch to an object of the type `type_name` in the table, and returns the result.
///
/// Scalar fields may be unknown to the type. A list or an object that both sides have must be a field of the type.
pub fn merge(base: Value, patch: Value, type_name: &str) -> Result<Value, Error> {
    let (Value::Object(base), Value::Object(patch)) = (base, patch) else { return Err(Error::NotAnObject) };
    merge::objects(base, patch, place(type_name)?).map(Value::Object)
}

fn place(type_name: &str) -> Result<MergeType, Error> {
    type_def(type_name).map(MergeType::Struct).ok_or_else(|| Error::UnknownType(type_name.to_owned()))
}

#[cfg(test)]
mod tests;
