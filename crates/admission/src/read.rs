//! Decodes JSON into the types of the API.

use longboat_compose::go::{self, TypeMismatch};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{Denial, Version};

/// Decodes an object. The error has the message of the reference's decoder, and its details name the field and the expected
/// type.
pub(crate) fn read<K: DeserializeOwned>(object: &Value, version: Version) -> Result<K, Denial> {
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
