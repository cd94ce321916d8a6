//! The picker that pools share. Its objects are written by hand, in `deploy/picker`.

use longboat_api::labels::NAMESPACE_NAME;
use serde_json::{Value, json};

use crate::{Values, controller::place_pods, metadata::placed};

const OBJECTS: &str = include_str!("../../../deploy/picker/picker.yaml");

/// Returns the account, the rights, the pods, their disruption budget, and who may call them.
///
/// # Errors
///
/// If the file does not parse. A test ensures that it does.
pub fn objects(namespace: &str, values: &Values) -> Result<Vec<Value>, serde_saphyr::Error> {
    let mut all = placed(OBJECTS, namespace)?;
    for object in &mut all {
        if object["kind"] == "NetworkPolicy"
            && let Some(clients) = clients(values)
        {
            object["spec"]["ingress"][0]["from"] = clients;
        }
        if object["kind"] == "Deployment" {
            object["spec"]["replicas"] = values.shared_picker.replicas.into();
            let container = &mut object["spec"]["template"]["spec"]["containers"][0];
            container["image"] = values.image.as_str().into();
            container["imagePullPolicy"] = json!(values.image_pull_policy);
            place_pods(object, values);
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
