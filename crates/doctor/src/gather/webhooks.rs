//! Whether the webhooks answer.

use kube::{
    Api, Client,
    api::{ListParams, PostParams},
    core::{DynamicObject, GroupVersionKind},
    discovery::ApiResource,
};
use longboat_api::v1alpha2::LLMInferenceService;
use longboat_controller::reader;
use serde_json::json;

use crate::facts::Facts;

/// Finds out whether a service could be created.
pub(super) async fn admission(client: &Client, system: &str, facts: &mut Facts) {
    let api: Api<LLMInferenceService> = Api::namespaced(client.clone(), system);
    let object = json!({
        "apiVersion": "serving.kserve.io/v1alpha2", "kind": "LLMInferenceService",
        "metadata": {"generateName": "longboat-doctor-"}, "spec": {"model": {"uri": "hf://longboat/doctor"}},
    });
    let Ok(object) = serde_json::from_value(object) else { return };
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let answer = api.create(&dry, &object).await;
    facts.admission = failure(answer, "whether services can be created", &mut facts.hidden);
}

/// Finds out whether services can be read in the older version.
pub(super) async fn conversion(client: &Client, system: &str, facts: &mut Facts) {
    let kind = GroupVersionKind::gvk("serving.kserve.io", "v1alpha1", "LLMInferenceServiceConfig");
    let resource = ApiResource::from_gvk_with_plural(&kind, "llminferenceserviceconfigs");
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), system, &resource);
    // One preset is enough, because all objects go through the same webhook.
    let answer = api.list(&ListParams::default().limit(1)).await;
    facts.conversion = failure(answer, "whether objects can be converted", &mut facts.hidden);
}

/// Returns why a request failed. A user who lacks the right to send it learns nothing from its failure.
fn failure<T>(answer: Result<T, kube::Error>, what: &str, hidden: &mut Vec<String>) -> Option<String> {
    match answer.err()? {
        // What a webhook denies is a 403, too.
        kube::Error::Api(status) if status.code == 403 && !status.message.contains("admission webhook") => {
            hidden.push(format!("{what}: {}", status.message));
            None
        }
        kube::Error::Api(status) => Some(status.message.clone()),
        error => Some(reader::sentence(&error)),
    }
}
