//! Converts objects to v1alpha2, for which the rules are written, and decodes them into the types of the API.

use std::borrow::Cow;

use longboat_api::conversion::{Version, convert};
use longboat_compose::go::{self, TypeMismatch};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::Denial;

/// Converts and decodes an object.
///
/// # Errors
///
/// If the object cannot be converted or decoded.
pub(crate) fn read<K: DeserializeOwned>(object: &Value, version: Version) -> Result<K, Denial> {
    decode(of(object, version)?.as_ref(), version)
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

/// Decodes an object of v1alpha2, which was written in `version`. The error has the message of the reference's decoder, and its
/// details name the field and the expected type.
///
/// # Errors
///
/// If the object cannot be decoded.
pub(crate) fn decode<K: DeserializeOwned>(object: &Value, version: Version) -> Result<K, Denial> {
    // Typed deserialization accepts some values that the reference's decoder refuses, such as a list for an object.
    if let Some(misfit) = go::misfit(object) {
        return Err(refused(misfit, version));
    }
    K::deserialize(object).map_err(|error| Denial::bad_request(error.to_string()))
}

fn refused(misfit: TypeMismatch, version: Version) -> Denial {
    let mut denial = Denial::bad_request(match version {
        Version::V1Alpha1 => misfit.message.replace("v1alpha2.", "v1alpha1."),
        Version::V1Alpha2 => misfit.message,
    });
    let message = format!("expected {}, found a {}", misfit.expected, misfit.found);
    denial.details = json!({"causes": [
        {"reason": "FieldValueTypeInvalid", "field": misfit.field, "message": message},
    ]});
    denial
}
