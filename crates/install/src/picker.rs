//! The picker that pools share. Its objects are written by hand, in `deploy/picker`.

use longboat_api::{labels::NAMESPACE_NAME, names::DEFAULT_SYSTEM_NAMESPACE};
use serde_json::{Value, json};

use crate::{Values, metadata::label};

const OBJECTS: &str = include_str!("../../../deploy/picker/picker.yaml");

/// Returns the account, the rights, the pods, their disruption budget, and who may call them.
///
/// # Errors
///
/// If the file does not parse. A test ensures that it does.
pub fn objects(namespace: &str, values: &Values) -> Result<Vec<Value>, serde_saphyr::Error> {
    let mut all: Vec<Value> = serde_saphyr::from_multiple(OBJECTS)?;
    for object in &mut all {
        label(object);
        if object["metadata"]["namespace"] == DEFAULT_SYSTEM_NAMESPACE {
            object["metadata"]["namespace"] = namespace.into();
        }
        for subject in object.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
            subject["namespace"] = namespace.into();
        }
        if object["kind"] == "NetworkPolicy"
            && let Some(clients) = clients(values)
        {
            object["spec"]["ingress"][0]["from"] = clients;
        }
        if object["kind"] == "Deployment" {
            object["spec"]["replicas"] = values.shared_picker.replicas.into();
            let pod = &mut object["spec"]["template"]["spec"];
            pod["containers"][0]["image"] = values.image.as_str().into();
            pod["containers"][0]["imagePullPolicy"] = json!(values.image_pull_policy);
            if !values.image_pull_secrets.is_empty() {
                let secrets = values.image_pull_secrets.iter().map(|name| json!({"name": name}));
                pod["imagePullSecrets"] = secrets.collect();
            }
            if !values.node_selector.is_empty() {
                pod["nodeSelector"] = json!(values.node_selector);
            }
            if !values.tolerations.is_empty() {
                pod["tolerations"] = json!(values.tolerations);
            }
        }
    }
    Ok(all)
}

/// Those who may ask for endpoints, or `None` if everybody may.
fn clients(values: &Values) -> Option<Value> {
    let clients = values.platform.settings.get("longboat")?.get("pickerClients")?;
    clients.as_array().filter(|clients| !clients.is_empty())?;
    let expression = json!({"key": NAMESPACE_NAME, "operator": "In", "values": clients});
    Some(json!([{"namespaceSelector": {"matchExpressions": [expression]}}]))
}
