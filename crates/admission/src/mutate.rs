//! Defaults of an object that is created or changed.

use longboat_api::{defaulting, v1alpha2::LLMInferenceService};
use serde_json::{Value, json};

use crate::{Denial, Facts, Request, Subject, Version, hub, local_model, older};

/// What defaulting comes to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mutation {
    /// The object instead of the one asked about, in the same version; none where nothing changes.
    pub object: Option<Value>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// Fills in the defaults of an object that is created or changed. Configs have no defaults, and what is being deleted needs
/// none.
///
/// What is filled in has the same place in both versions, so an old object is not converted for it: a round trip would
/// add what nobody meant.
///
/// # Errors
///
/// When the object cannot be read.
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
    hub::read::<LLMInferenceService>(&defaulted, request.version)?;
    warnings.extend(local_model::apply(&mut defaulted, facts));
    Ok(Mutation { object: (defaulted != *object).then_some(defaulted), warnings })
}

/// The reference's text does not say which field it is about; the details do.
fn unreadable_uri(error: &defaulting::InvalidField) -> Denial {
    let mut denial = Denial::bad_request(error.problem().to_string());
    denial.details = json!({"causes": [
        {"reason": "FieldValueInvalid", "field": error.field(), "message": error.problem().to_string()},
    ]});
    denial
}
