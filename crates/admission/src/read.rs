//! From JSON to the types of the API.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Denial;

/// The typed object, or a refusal that says what cannot be read.
pub(crate) fn read<K: DeserializeOwned>(object: &Value) -> Result<K, Denial> {
    K::deserialize(object).map_err(|error| Denial::bad_request(error.to_string()))
}
