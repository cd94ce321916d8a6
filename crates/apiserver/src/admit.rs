//! Admission: webhooks from configuration objects, and in-process hooks.

use serde_json::Value;

use crate::{
    admission::{AdmissionAnswer, AdmissionRequest},
    kinds::Resource,
    limits, plugins, pod_account,
    request::query::Query,
    review::Review,
    state::State,
    status::{ApiError, Cause},
    strategy, webhook,
};

/// Runs mutating admission on the object, then prunes unknown fields and fills in defaults again.
pub(crate) async fn mutate(
    state: &State,
    review: &Review<'_>,
    mut value: Value,
    warnings: &mut Vec<String>,
) -> Result<Value, ApiError> {
    let mut differs = pod_account::admit(state, review, &mut value).await?;
    differs |= plugins::mutate(state, review, &mut value)?;
    if let Some(changed) = webhook::mutate(state, review, Some(&value), warnings).await? {
        differs |= changed != value;
        value = changed;
    }
    for hook in hooks(state, review.resource) {
        let answer = hook.mutate(request(review, Some(&value))).await;
        if let Some(changed) = take(answer, warnings)? {
            differs |= changed != value;
            value = changed;
        }
    }
    if differs {
        check_type(review, &value)?;
        strategy::prune(review.resource, &mut value);
        strategy::default(review.resource, &mut value);
        limits::refuse_large(&value)?;
    }
    Ok(value)
}

/// Refuses an object to which mutating admission gave another kind or version.
fn check_type(review: &Review<'_>, value: &Value) -> Result<(), ApiError> {
    let expected = [("kind", review.resource.kind.clone()), ("apiVersion", review.resource.api_version())];
    let causes: Vec<Cause> = expected
        .iter()
        .filter(|(field, expected)| value[field] != **expected)
        .map(|(field, expected)| Cause::invalid(*field, &value[field], format!("must be {expected}")))
        .collect();
    if causes.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(review.resource.about_kind(&review.name), &causes))
}

/// Runs mutating admission for a deletion, which a hook may refuse.
pub(crate) async fn mutate_deletion(
    state: &State,
    review: &Review<'_>,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    webhook::mutate(state, review, None, warnings).await?;
    Ok(())
}

/// Runs validating admission, which may refuse the request.
pub(crate) async fn validate(
    state: &State,
    review: &Review<'_>,
    object: Option<&Value>,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    if let Some(object) = object {
        plugins::validate(state, review, object)?;
    }
    webhook::validate(state, review, object, warnings).await?;
    for hook in hooks(state, review.resource) {
        let answer = hook.validate(request(review, object)).await;
        take(answer, warnings)?;
    }
    Ok(())
}

/// Returns `CreateOptions` and similar options in the form that admission reviews show.
pub(crate) fn options(mut options: Value, query: &Query, dry_run: bool) -> Value {
    if dry_run {
        options["dryRun"] = Value::from(vec!["All"]);
    }
    for name in ["fieldManager", "fieldValidation"] {
        if let Some(value) = query.get(name).filter(|v| !v.is_empty()) {
            options[name] = Value::from(value);
        }
    }
    if query.flag("force") && options["kind"] == "PatchOptions" {
        options["force"] = Value::Bool(true);
    }
    options
}

/// Returns the request that hooks get.
fn request(review: &Review<'_>, object: Option<&Value>) -> AdmissionRequest {
    AdmissionRequest {
        group: review.resource.group.clone(),
        version: review.resource.version.clone(),
        resource: review.resource.plural.clone(),
        kind: review.resource.kind.clone(),
        subresource: review.subresource.map(str::to_owned),
        operation: review.operation,
        namespace: review.namespace.clone(),
        name: review.name.clone(),
        object: object.cloned(),
        old: review.old.cloned(),
        dry_run: review.dry_run,
    }
}

fn hooks(state: &State, resource: &Resource) -> Vec<std::sync::Arc<dyn crate::admission::Admission>> {
    state
        .admission
        .read()
        .iter()
        .filter(|hook| hook.handles(&resource.group, &resource.plural))
        .cloned()
        .collect()
}

fn take(answer: AdmissionAnswer, warnings: &mut Vec<String>) -> Result<Option<Value>, ApiError> {
    warnings.extend(answer.warnings);
    match answer.refused {
        None => Ok(answer.object),
        Some(refusal) => Err(refusal),
    }
}
