//! Converts objects to v1alpha2, for which the rules are written.

use std::borrow::Cow;

use longboat_api::conversion::{Version, convert};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Denial;

/// Converts and decodes an object.
///
/// # Errors
///
/// If the object cannot be converted or decoded.
pub(crate) fn read<K: DeserializeOwned>(object: &Value, version: Version) -> Result<K, Denial> {
    crate::read::read(of(object, version)?.as_ref(), version)
}

/// Converts an object to `v1alpha2`.
///
/// # Errors
///
/// If the object cannot be converted.
pub(crate) fn of(object: &Value, version: Version) -> Result<Cow<'_, Value>, Denial> {
    if version == Version::V1Alpha2 {
        return Ok(Cow::Borrowed(object));
    }
    let mut object = object.clone();
    convert(&mut object, Version::V1Alpha2).map_err(|error| Denial::bad_request(error.to_string()))?;
    Ok(Cow::Owned(object))
}
