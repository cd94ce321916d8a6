//! Report: writes a status that differs from the stored one.

use kube::api::{Patch, PatchParams};
use longboat_api::{
    conditions::{Condition, types},
    reasons::event,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceStatus},
};
use longboat_watch::{has_code, text_of};
use serde_json::json;

use crate::{announce, context::Context, error::ReconcileError, events::Subject, watch::kinds::WatchedKind};

/// Writes the status unless it is stored already. Records an event when the service becomes ready or stops being ready.
pub(crate) async fn publish(
    context: &Context,
    subject: &Subject,
    service: &LLMInferenceService,
    status: LLMInferenceServiceStatus,
) -> Result<(), ReconcileError> {
    if service.status.as_ref() == Some(&status) {
        return Ok(());
    }
    // The patch has only the status. The spec is not sent, so other writers do not conflict.
    let patch = json!([{"op": "add", "path": "/status", "value": status}]);
    let patch: json_patch::Patch = serde_json::from_value(patch).map_err(|error| {
        ReconcileError::Unfinished(format!("the status cannot be written as a patch: {error}"))
    })?;
    let api = LLMInferenceService::api(&context.client, Some(subject.key.namespace.as_deref()));
    let asked = context.caches.inference_services.sending();
    match api.patch_status(&subject.key.name, &PatchParams::default(), &Patch::Json::<()>(patch)).await {
        Ok(updated) => announce::reported(context, &updated, asked),
        Err(error) if has_code(&error, 404) => return Ok(()),
        Err(error) => {
            let message = format!(
                "Failed to update status for LLMInferenceService {}: {}",
                subject.key.name,
                text_of(&error)
            );
            context.events.warning(subject, event::UPDATE_FAILED, message);
            return Err(ReconcileError::request(format!("update the status of {}", subject.key), error));
        }
    }
    record_readiness(context, subject, service.status.as_ref(), &status);
    Ok(())
}

/// Records a change of readiness. A change from True to Unknown is not an event, because readiness may return without a
/// failure.
fn record_readiness(
    context: &Context,
    subject: &Subject,
    before: Option<&LLMInferenceServiceStatus>,
    after: &LLMInferenceServiceStatus,
) {
    let ready = |status: &LLMInferenceServiceStatus| {
        status.conditions.iter().find(|c| c.type_ == types::READY).cloned()
    };
    let was = before.and_then(ready).is_some_and(|c| c.is_true());
    let Some(is) = ready(after) else { return };
    let name = &subject.key.name;
    if was && is.is_false() {
        let unready = |c: &&Condition| c.is_false() && c.type_ != types::READY;
        let why: Vec<&str> = after.conditions.iter().filter(unready).map(|c| c.type_.as_str()).collect();
        let message =
            format!("LLMInferenceService [{name}] is no longer Ready because of: {}", why.join(", "));
        context.events.warning(subject, event::NOT_READY, message);
    } else if !was && is.is_true() {
        context.events.normal(subject, event::READY, format!("LLMInferenceService [{name}] is Ready"));
    }
}
