//! How fields travel: Go's `omitempty`, and `null` read as absent.

use serde::{Deserialize, Deserializer};

/// Whether a value is the zero value of its type, which Go leaves out where a field says `omitempty`.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Reads `null` as the zero value, as Go does for a field that is no pointer.
pub(crate) fn null_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
