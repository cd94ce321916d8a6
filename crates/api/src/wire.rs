//! Serialization of fields as in Go: `omitempty`, and `null` treated as missing.

use serde::{Deserialize, Deserializer};

/// Whether a value is the zero value of its type, which Go omits for a field with `omitempty`.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Reads `null` as the zero value, like Go for a field that is not a pointer.
pub(crate) fn null_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
