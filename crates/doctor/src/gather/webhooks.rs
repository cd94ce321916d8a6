//! Whether the webhooks answer.

use kube::{
    Api, Client,
    api::{ListParams, PostParams},
    core::DynamicObject,
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
    match api.create(&dry, &object).await {
        Err(kube::Error::Api(status))
            if status.code == 403 && !status.message.contains("admission webhook") =>
        {
            facts.hidden.push(format!("whether services can be created: {}", status.message));
        }
        Err(kube::Error::Api(status)) => facts.admission = Some(status.message.clone()),
        Err(error) => facts.admission = Some(reader::sentence(&error)),
        Ok(_) => {}
    }
}

/// Finds out whether services can be read in the older version.
pub(super) async fn conversion(client: &Client, system: &str, facts: &mut Facts) {
    let resource = ApiResource {
        group: "serving.kserve.io".into(),
        version: "v1alpha1".into(),
        api_version: "serving.kserve.io/v1alpha1".into(),
        kind: "LLMInferenceServiceConfig".into(),
        plural: "llminferenceserviceconfigs".into(),
    };
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), system, &resource);
    // One preset is enough, because all objects go through the same webhook.
    match api.list(&ListParams::default().limit(1)).await {
        Err(kube::Error::Api(status)) if status.code == 403 => {
            facts.hidden.push(format!("whether objects can be converted: {}", status.message));
        }
        Err(kube::Error::Api(status)) => facts.conversion = Some(status.message.clone()),
        Err(error) => facts.conversion = Some(reader::sentence(&error)),
        Ok(_) => {}
    }
}
