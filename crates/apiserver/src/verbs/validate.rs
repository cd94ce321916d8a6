//! Validation of an object that is about to be stored: by the rules of its kind, or by the schema of its definition.

use serde_json::Value;

use super::Call;
use crate::{limits, status::ApiError, strategy};

/// Refuses an invalid object, and collects warnings. `live` is the stored object, on updates.
pub(super) fn validate(
    call: &mut Call<'_>,
    subresource: Option<&str>,
    name: &str,
    value: &Value,
    live: Option<&Value>,
) -> Result<(), ApiError> {
    let resource = &call.resource;
    limits::refuse_deep(resource, value)?;
    let mut causes = match (subresource, live) {
        (Some(subresource), Some(live)) => strategy::validate_subresource(resource, subresource, value, live),
        _ => strategy::validate(resource, value, live),
    };
    if let Some(custom) = resource.custom() {
        let verdict = custom.schema.judge(value, live);
        causes.extend(verdict.causes);
        call.warnings.extend(verdict.warnings);
    }
    if !causes.is_empty() {
        return Err(ApiError::invalid(resource.about_kind(name), &causes));
    }
    if subresource.is_none() {
        call.warnings.extend(strategy::warnings(resource, value, live));
    }
    Ok(())
}
