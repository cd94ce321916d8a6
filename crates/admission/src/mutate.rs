//! Defaults of an object that is created or changed (contract 01 §6).

use longboat_api::{defaulting, v1alpha2::LLMInferenceService};
use serde_json::Value;

use crate::{Denial, Request, Subject, read::read};

/// Fills in the defaults of an object that is created or changed; the object instead of the one asked about, or none
/// where nothing changes. Configs have no defaults.
///
/// # Errors
/// When the object cannot be read.
pub fn mutate(subject: Subject, request: &Request<'_>) -> Result<Option<Value>, Denial> {
    let (Subject::Service, Some(object)) = (subject, request.object) else { return Ok(None) };
    let mut defaulted = object.clone();
    defaulting::apply(&mut defaulted).map_err(|error| Denial::bad_request(error.to_string()))?;
    read::<LLMInferenceService>(&defaulted)?;
    Ok((defaulted != *object).then_some(defaulted))
}
