//! Admission: webhooks from configuration objects, and in-process hooks.

use serde_json::Value;

use crate::{
    admission::{AdmissionAnswer, AdmissionRequest},
    kinds::Resource,
    pod_account,
    request::query::Query,
    state::State,
    status::{ApiError, Cause},
    strategy,
    verbs::create,
    webhook,
};

/// The context of an admission request: everything but the object.
#[derive(Debug, Clone)]
pub(crate) struct Review<'a> {
    pub(crate) operation: &'static str,
    pub(crate) resource: &'a Resource,
    pub(crate) subresource: Option<&'a str>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) old: Option<&'a Value>,
    pub(crate) options: &'a Value,
    pub(crate) user: &'a Value,
    pub(crate) dry_run: bool,
}

// === impl Review ===

impl Review<'_> {
    fn webhook<'b>(&'b self, object: Option<&'b Value>) -> webhook::Review<'b> {
        webhook::Review {
            operation: self.operation,
            resource: self.resource,
            subresource: self.subresource,
            namespace: self.namespace.as_deref(),
            name: &self.name,
            object,
            old: self.old,
            options: self.options,
            user: self.user,
            dry_run: self.dry_run,
        }
    }

    fn request(&self, object: Option<&Value>) -> AdmissionRequest {
        AdmissionRequest {
            group: self.resource.group.clone(),
            version: self.resource.version.clone(),
            resource: self.resource.plural.clone(),
            kind: self.resource.kind.clone(),
            subresource: self.subresource.map(str::to_owned),
            operation: self.operation,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            object: object.cloned(),
            old: self.old.cloned(),
            dry_run: self.dry_run,
        }
    }
}

/// Runs mutating admission on the object, then prunes unknown fields and fills in defaults again.
pub(crate) async fn mutate(
    state: &State,
    review: &Review<'_>,
    mut value: Value,
    warnings: &mut Vec<String>,
) -> Result<Value, ApiError> {
    let mut differs = pod_account::admit(state, review, &mut value).await?;
    if let Some(changed) = webhook::mutate(state, &review.webhook(Some(&value)), warnings).await? {
        differs |= changed != value;
        value = changed;
    }
    for hook in hooks(state, review.resource) {
        let answer = hook.mutate(review.request(Some(&value))).await;
        if let Some(changed) = take(answer, warnings)? {
            differs |= changed != value;
            value = changed;
        }
    }
    if differs {
        check_type(review, &value)?;
        strategy::prune(review.resource, &mut value);
        strategy::default(review.resource, &mut value);
        create::refuse_large(&value)?;
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
    webhook::mutate(state, &review.webhook(None), warnings).await?;
    Ok(())
}

/// Runs validating admission, which may refuse the request.
pub(crate) async fn validate(
    state: &State,
    review: &Review<'_>,
    object: Option<&Value>,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    webhook::validate(state, &review.webhook(object), warnings).await?;
    for hook in hooks(state, review.resource) {
        let answer = hook.validate(review.request(object)).await;
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
