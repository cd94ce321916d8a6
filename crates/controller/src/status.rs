//! Report: writes a status that differs from the stored one.

use kube::api::{Patch, PatchParams};
use longboat_api::{
    conditions::{Condition, types},
    reasons::event,
    v1alpha2::{LLMInferenceService, LLMInferenceServiceStatus},
};
use longboat_key::{Key, Uid};
use longboat_watch::{has_code, text_of};
use serde::Serialize;
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
    let failed = |error: &kube::Error| {
        let name = &subject.key.name;
        let message = format!("Failed to update status for LLMInferenceService {name}: {}", text_of(error));
        context.events.warning(subject, event::UPDATE_FAILED, message);
    };
    if write::<LLMInferenceService>(context, &subject.key, subject.uid.as_deref(), &status, failed).await? {
        record_readiness(context, subject, service.status.as_ref(), &status);
    }
    Ok(())
}

/// Writes the status of the object with this uid, and calls `failed` if the server refuses it. Returns whether an object of that
/// name still exists.
pub(crate) async fn write<K: WatchedKind>(
    context: &Context,
    key: &Key,
    uid: Uid<&str>,
    status: &impl Serialize,
    failed: impl FnOnce(&kube::Error),
) -> Result<bool, ReconcileError> {
    // The patch has only the status. The spec is not sent, so other writers do not conflict. An object of the same name that was
    // created meanwhile must not be called ready because its predecessor was.
    let patch = json!([
        {"op": "test", "path": "/metadata/uid", "value": uid.as_str()},
        {"op": "add", "path": "/status", "value": status},
    ]);
    let patch: json_patch::Patch = serde_json::from_value(patch).map_err(|error| {
        ReconcileError::Unfinished(format!("the status cannot be written as a patch: {error}"))
    })?;
    let api = K::api(&context.client, Some(key.namespace.as_deref()));
    let sent = K::cache(&context.caches).sending();
    match api.patch_status(&key.name, &PatchParams::default(), &Patch::Json::<()>(patch)).await {
        Ok(updated) => {
            announce::store_status_response(context, &updated, sent);
            Ok(true)
        }
        Err(error) if has_code(&error, 404) => Ok(false),
        Err(error) if has_code(&error, 409) => {
            Err(ReconcileError::Conflict { what: format!("the status of {key}") })
        }
        Err(source) => {
            failed(&source);
            Err(ReconcileError::Status { key: key.clone(), source })
        }
    }
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

#[cfg(test)]
mod tests {
    use kube::Api;
    use longboat_api::v1alpha2::{LLMInferenceServiceConfig, LLMInferenceServiceConfigStatus};
    use longboat_key::{Name, Namespace};
    use longboat_testkit::TestCluster;

    use super::*;
    use crate::{args::Args, events, metrics::Metrics};

    #[tokio::test]
    async fn a_status_is_not_written_to_another_object_of_the_same_name() {
        let world = TestCluster::empty().await;
        world.install_platform().await;
        world.namespace("ns").await;
        let config = json!({
            "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceServiceConfig",
            "metadata": {"name": "base", "namespace": "ns"}, "spec": {"replicas": 1},
        });
        world.apply(config).await;
        let (sink, _) = events::channel();
        let context = Context::new(world.client(), Args::default(), sink, Metrics::new());
        let key = Key::new(Namespace("ns"), Name("base"));
        let status = LLMInferenceServiceConfigStatus { observed_generation: 7, ..Default::default() };
        let write = |uid| write::<LLMInferenceServiceConfig>(&context, &key, uid, &status, |_| {});
        let api: Api<LLMInferenceServiceConfig> = Api::namespaced(world.client(), "ns");
        write(Uid("deleted")).await.unwrap_err();
        let uid = Uid::of(&api.get("base").await.unwrap().metadata).to_shared();
        assert_eq!(api.get("base").await.unwrap().status, None);
        write(uid.as_deref()).await.unwrap();
        assert_eq!(api.get("base").await.unwrap().status, Some(status));
    }
}
