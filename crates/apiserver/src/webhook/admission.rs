//! Calls of admission webhooks.

use base64::{Engine, prelude::BASE64_STANDARD};
use futures::future::join_all;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::hooks::{Hook, Kind};
use crate::{
    depth::MAX_DEPTH,
    form,
    kinds::Resource,
    limits,
    patching::json_patch::{self, JsonPatchError, MAX_OPERATIONS},
    review::Review,
    state::State,
    status::ApiError,
    strategy,
};

/// The reasons that a webhook may give. Other reasons are dropped.
const REASONS: [&str; 16] = [
    "AlreadyExists",
    "BadRequest",
    "Conflict",
    "Expired",
    "Forbidden",
    "Gone",
    "InternalError",
    "Invalid",
    "MethodNotAllowed",
    "NotAcceptable",
    "NotFound",
    "RequestEntityTooLarge",
    "ServiceUnavailable",
    "Timeout",
    "TooManyRequests",
    "Unauthorized",
];

/// Calls the mutating webhooks one after the other. If there are any, returns the object, which the caller must default again. Appends
/// warnings.
pub(crate) async fn mutate(
    state: &State,
    review: &Review<'_>,
    object: Option<&Value>,
    warnings: &mut Vec<String>,
) -> Result<Option<Value>, ApiError> {
    if is_exempt(review.resource) {
        return Ok(None);
    }
    let hooks = state.outgoing.hooks(&state.store, Kind::Mutating);
    if hooks.is_empty() {
        return Ok(None);
    }
    let mut object = object.cloned();
    // Webhooks with a reinvocation policy, each with the object after its call. They are called again if later webhooks
    // changed the object.
    let mut again: Vec<(&Hook, Option<Value>)> = Vec::new();
    for hook in hooks.iter() {
        let asked = call_mutating(state, hook, review, &mut object, warnings).await?;
        if asked && hook.reinvoke {
            again.push((hook, object.clone()));
        }
    }
    for (hook, left) in again {
        if left != object {
            call_mutating(state, hook, review, &mut object, warnings).await?;
        }
    }
    Ok(object)
}

/// Calls the validating webhooks concurrently. Appends warnings.
pub(crate) async fn validate(
    state: &State,
    review: &Review<'_>,
    object: Option<&Value>,
    warnings: &mut Vec<String>,
) -> Result<(), ApiError> {
    if is_exempt(review.resource) {
        return Ok(());
    }
    let hooks = state.outgoing.hooks(&state.store, Kind::Validating);
    if hooks.is_empty() {
        return Ok(());
    }
    let answers = join_all(hooks.iter().map(|hook| async move {
        let mut warnings = Vec::new();
        let answer = ask(state, hook, review, object, &mut warnings).await;
        (warnings, answer)
    }))
    .await;
    let mut verdict = Ok(());
    for (given, answer) in answers {
        warnings.extend(given);
        verdict = verdict.and(answer.map(|_| ()));
    }
    verdict
}

/// Whether a resource is exempt from webhooks. Webhook configurations are exempt, because otherwise nobody could remove a
/// broken one.
fn is_exempt(resource: &Resource) -> bool {
    resource.group == "admissionregistration.k8s.io"
}

/// The answer of a webhook that allowed the request.
struct Answer {
    patch: Option<Value>,
    /// The version of the object that the webhook received.
    api_version: String,
}

/// Calls one mutating webhook and applies its patch to `object`. Returns whether the webhook was called.
async fn call_mutating(
    state: &State,
    hook: &Hook,
    review: &Review<'_>,
    object: &mut Option<Value>,
    warnings: &mut Vec<String>,
) -> Result<bool, ApiError> {
    let Some(answer) = ask(state, hook, review, object.as_ref(), warnings).await? else {
        return Ok(false);
    };
    if let (Some(patch), Some(current)) = (&answer.patch, object.as_ref()) {
        let own_version = review.resource.api_version();
        let seen = convert(state, review.resource, current.clone(), &answer.api_version).await?;
        let seen = json_patch::apply(seen, patch).map_err(|refused| unpatchable(patch, refused))?;
        limits::refuse_large(&seen)?;
        if !seen.is_object() {
            return Err(ApiError::internal(format!("the patch of webhook {:?} leaves no object", hook.name)));
        }
        if review.resource.custom().is_none()
            && let Some(why) = strategy::fields::mistyped_builtin_field(review.resource, &seen)
        {
            return Err(ApiError::internal(why));
        }
        *object = Some(convert(state, review.resource, seen, &own_version).await?);
    }
    Ok(true)
}

/// Returns the error for a patch of a webhook that could not be applied, in the words of kube-apiserver.
fn unpatchable(operations: &Value, refused: JsonPatchError) -> ApiError {
    ApiError::internal(match refused {
        JsonPatchError::Unprocessable { operation } => {
            let operation = &operations[operation];
            let name = operation["op"].as_str().unwrap_or("patch");
            let path = operation["path"].as_str().unwrap_or_default();
            format!("{name} operation does not apply: doc is missing path: {path:?}: missing value")
        }
        JsonPatchError::TooMany(operations) => {
            format!(
                "the patch of a webhook has {operations} operations, at most {MAX_OPERATIONS} are carried out"
            )
        }
        JsonPatchError::TooDeep => {
            format!("the object that a webhook patched has more than {MAX_DEPTH} levels")
        }
    })
}

/// Calls one webhook if its rules match. Returns `None` if they do not match, or if the call failed and the failure policy
/// is `Ignore`.
async fn ask(
    state: &State,
    hook: &Hook,
    review: &Review<'_>,
    object: Option<&Value>,
    warnings: &mut Vec<String>,
) -> Result<Option<Answer>, ApiError> {
    let Some(resource) = hook.wants(&state.registry, &state.store, review, object) else {
        return Ok(None);
    };
    let api_version = resource.api_version();
    let (object, old) = (
        shown(state, review.resource, object, &api_version).await?,
        shown(state, review.resource, review.old, &api_version).await?,
    );
    let uid = Uuid::new_v4().to_string();
    let request = request(&uid, review, &resource, &object, &old);
    if !hook.conditions_hold(&request, review)? {
        return Ok(None);
    }
    let body = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request});
    let answer = match state.outgoing.call(&state.store, &hook.client, hook.timeout, &body).await {
        Ok(answer) => read(&answer, &uid),
        Err(why) => Err(why),
    };
    match answer {
        Ok(response) => {
            // a denial may have warnings, too
            warnings.extend(warnings_of(&response));
            decide(hook, &response, api_version).map(Some)
        }
        Err(why) if hook.ignore_failures => {
            tracing::warn!(webhook = hook.name, %why, "A webhook failed and is ignored.");
            Ok(None)
        }
        Err(why) => Err(ApiError::internal(format!(
            "failed calling webhook {:?}: failed to call webhook: {why}",
            hook.name
        ))),
    }
}

fn request(uid: &str, review: &Review<'_>, resource: &Resource, object: &Value, old: &Value) -> Value {
    let kind = |r: &Resource| match review.subresource {
        Some("scale") => json!({"group": "autoscaling", "version": "v1", "kind": "Scale"}),
        _ => json!({"group": r.group, "version": r.version, "kind": r.kind}),
    };
    let path = |r: &Resource| json!({"group": r.group, "version": r.version, "resource": r.plural});
    let mut request = json!({
        "uid": uid,
        "kind": kind(resource),
        "resource": path(resource),
        "requestKind": kind(review.resource),
        "requestResource": path(review.resource),
        "operation": review.operation,
        "userInfo": review.user,
        "object": object,
        "oldObject": old,
        "dryRun": review.dry_run,
        "options": review.options,
    });
    if let Some(subresource) = review.subresource {
        request["subResource"] = subresource.into();
        request["requestSubResource"] = subresource.into();
    }
    if !review.name.is_empty() {
        request["name"] = review.name.as_str().into();
    }
    if let Some(namespace) = review.namespace.as_deref().filter(|name| !name.is_empty()) {
        request["namespace"] = namespace.into();
    }
    request
}

/// Returns the object in the version that the webhook wants to see, or null.
async fn shown(
    state: &State,
    resource: &Resource,
    object: Option<&Value>,
    api_version: &str,
) -> Result<Value, ApiError> {
    match object {
        None => Ok(Value::Null),
        Some(object) => convert(state, resource, object.clone(), api_version).await,
    }
}

async fn convert(
    state: &State,
    resource: &Resource,
    object: Value,
    api_version: &str,
) -> Result<Value, ApiError> {
    if object["apiVersion"] == api_version || resource.custom().is_none() {
        return Ok(object);
    }
    let converted = form::convert_custom(state, resource, vec![object], api_version).await?;
    converted.into_iter().next().ok_or_else(|| ApiError::internal("a conversion lost its object"))
}

/// Returns the `response` of a review after checking its form.
fn read(answer: &Value, uid: &str) -> Result<Map<String, Value>, String> {
    let text = |field: &str| answer[field].as_str().unwrap_or_default();
    let (kind, api_version) = (text("kind"), text("apiVersion"));
    if kind != "AdmissionReview"
        || !["admission.k8s.io/v1", "admission.k8s.io/v1beta1"].contains(&api_version)
    {
        return Err(format!(
            "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:110\""
        ));
    }
    let Some(response) = answer["response"].as_object() else {
        return Err("webhook response was absent".to_owned());
    };
    let got = response.get("uid").and_then(Value::as_str).unwrap_or_default();
    if got != uid {
        return Err(format!("expected response.uid={uid:?}, got {got:?}"));
    }
    Ok(response.clone())
}

fn warnings_of(response: &Map<String, Value>) -> impl Iterator<Item = String> {
    response
        .get("warnings")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
}

fn decide(hook: &Hook, response: &Map<String, Value>, api_version: String) -> Result<Answer, ApiError> {
    if response.get("allowed") != Some(&Value::Bool(true)) {
        return Err(denial(&hook.name, response.get("status").unwrap_or(&Value::Null)));
    }
    let patch = match response.get("patch").and_then(Value::as_str).filter(|patch| !patch.is_empty()) {
        None => None,
        Some(encoded) => {
            let bytes =
                BASE64_STANDARD.decode(encoded).map_err(|error| ApiError::internal(error.to_string()))?;
            Some(serde_json::from_slice(&bytes).map_err(|error| ApiError::internal(error.to_string()))?)
        }
    };
    Ok(Answer { patch, api_version })
}

/// Returns the error for a denial, from the `status` in the webhook's response.
fn denial(webhook: &str, status: &Value) -> ApiError {
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).filter(|code| *code >= 400);
    let reason = status["reason"].as_str().unwrap_or_default();
    let known = REASONS.iter().find(|known| **known == reason).copied().unwrap_or_default();
    let denied = format!("admission webhook {webhook:?} denied the request");
    let message = match status["message"].as_str().filter(|message| !message.is_empty()) {
        Some(message) => format!("{denied}: {message}"),
        None if !reason.is_empty() => format!("{denied}: {reason}"),
        None => format!("{denied} without explanation"),
    };
    let mut error = ApiError::new(code.unwrap_or(400), known, message);
    error.details = status["details"].as_object().cloned();
    error
}
