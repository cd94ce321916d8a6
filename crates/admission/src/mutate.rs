//! Defaulting of an object that is created or updated.

use longboat_api::{defaulting, v1alpha2::LLMInferenceService};
use serde_json::{Value, json};

use crate::{Denial, Facts, Request, Subject, Version, hub, local_model, older};

/// The result of defaulting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mutation {
    /// The defaulted object, in the version of the request. `None` if nothing changes.
    pub object: Option<Value>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// Sets the defaults of an object that is created or updated. Configs have no defaults, and an object that is being deleted
/// needs none.
///
/// The defaulted fields are at the same paths in both versions, so an object in the older version is not converted: a round
/// trip would add fields that nobody asked for.
///
/// # Errors
///
/// If the object cannot be decoded.
pub fn mutate(subject: Subject, request: &Request<'_>, facts: &Facts) -> Result<Mutation, Denial> {
    let (Subject::Service, Some(object)) = (subject, request.object) else { return Ok(Mutation::default()) };
    if request.is_of_deleted() {
        return Ok(Mutation::default());
    }
    let mut defaulted = object.clone();
    defaulting::apply(&mut defaulted).map_err(|error| unreadable_uri(&error))?;
    let mut warnings = match request.version {
        Version::V1Alpha1 => older::name_criticalities(&mut defaulted),
        Version::V1Alpha2 => Vec::new(),
    };
    // Only the error counts. What cannot be decoded is refused here, before the schema words it in another way.
    hub::read::<LLMInferenceService>(&defaulted, request.version)?;
    warnings.extend(local_model::apply(&mut defaulted, facts));
    Ok(Mutation { object: (defaulted != *object).then_some(defaulted), warnings })
}

/// The reference's message does not name the field, but the details do.
fn unreadable_uri(error: &defaulting::InvalidField) -> Denial {
    let mut denial = Denial::bad_request(error.source.to_string());
    denial.details = json!({"causes": [
        {"reason": "FieldValueInvalid", "field": error.field, "message": error.source.to_string()},
    ]});
    denial
}
