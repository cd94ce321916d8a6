//! Conversion webhooks of custom resources.

use std::time::Duration;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::{state::State, status::ApiError, strategy};

/// The timeout of a conversion, as in kube-apiserver.
const CONVERSION_TIMEOUT: Duration = Duration::from_secs(30);

/// The version of the reviews that are sent and expected.
const REVIEW_VERSION: &str = "apiextensions.k8s.io/v1";

/// Calls a conversion webhook to convert `objects` to `api_version`. The result has the same order and number. Objects that
/// already have that version are not sent. The webhook may only change labels and annotations in the metadata.
pub(crate) async fn convert(
    state: &State,
    config: &Value,
    mut objects: Vec<Value>,
    api_version: &str,
) -> Result<Vec<Value>, ApiError> {
    let sent: Vec<usize> = (0..objects.len()).filter(|i| objects[*i]["apiVersion"] != api_version).collect();
    let Some(first) = sent.first().map(|index| &objects[*index]) else { return Ok(objects) };
    let webhook = format!(
        "conversion webhook for {}, Kind={}",
        first["apiVersion"].as_str().unwrap_or_default(),
        first["kind"].as_str().unwrap_or_default(),
    );
    let uid = Uuid::new_v4().to_string();
    let review = json!({
        "kind": "ConversionReview",
        "apiVersion": REVIEW_VERSION,
        "request": {
            "uid": uid,
            "desiredAPIVersion": api_version,
            "objects": sent.iter().map(|index| &objects[*index]).collect::<Vec<_>>(),
        },
    });
    let failed = |why: &str| ApiError::unexpected_error(format!("{webhook} failed: {why}"));
    let mut answer = state
        .outgoing
        .call(&state.store, &config["clientConfig"], CONVERSION_TIMEOUT, &review)
        .await
        .map_err(|why| failed(&why))?;
    let text = |field: &str| answer[field].as_str().unwrap_or_default();
    let (kind, version) = (text("kind"), text("apiVersion"));
    if kind != "ConversionReview" || version != REVIEW_VERSION {
        return Err(failed(&format!(
            "expected webhook response of {REVIEW_VERSION}, Kind=ConversionReview, got {version}, Kind={kind}"
        )));
    }
    // A review is an object, so `IndexMut` cannot panic here.
    let response = &mut answer["response"];
    if !response.is_object() {
        return Err(failed("webhook response was absent"));
    }
    if response["uid"] != uid.as_str() {
        return Err(failed(&format!("expected response.uid={uid:?}, got {}", response["uid"])));
    }
    if response["result"]["status"] != "Success" {
        let text = |field: &str| response["result"][field].as_str().unwrap_or_default();
        let why = match text("message") {
            "" => format!("response.result.status was '{}', not 'Success'", text("status")),
            message => message.to_owned(),
        };
        return Err(failed(&why));
    }
    let converted = match response["convertedObjects"].take() {
        Value::Array(converted) => converted,
        _ => Vec::new(),
    };
    if converted.len() != sent.len() {
        return Err(ApiError::unexpected_error(format!(
            "{webhook} returned {} objects, expected {}",
            converted.len(),
            sent.len()
        )));
    }
    for (index, mut new) in sent.into_iter().zip(converted) {
        let old = &objects[index];
        let wrong =
            |why: String| ApiError::unexpected_error(format!("{webhook} returned invalid object: {why}"));
        if new["apiVersion"] != api_version || new["kind"] != old["kind"] {
            return Err(ApiError::unexpected_error(format!(
                "{webhook} returned invalid converted object at index {index}: invalid groupVersion (expected {api_version}, received {})",
                new["apiVersion"].as_str().unwrap_or_default()
            )));
        }
        restore(&mut new, old).map_err(wrong)?;
        objects[index] = new;
    }
    Ok(objects)
}

/// Checks that the webhook kept the identity of an object. Restores all metadata other than labels and annotations.
fn restore(new: &mut Value, old: &Value) -> Result<(), String> {
    let text =
        |object: &Value, field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    for (field, what) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (before, after) = (text(old, field), text(new, field));
        if before != after {
            return Err(format!("must have the same {what}: {before} != {after}"));
        }
    }
    let mut metadata = old["metadata"].as_object().cloned().unwrap_or_default();
    let changed = new["metadata"].as_object().cloned().unwrap_or_else(Map::new);
    for field in ["labels", "annotations"] {
        match changed.get(field) {
            Some(value) if !value.is_null() => {
                require_strings(field, value)?;
                metadata.insert(field.to_owned(), value.clone())
            }
            _ => metadata.remove(field),
        };
    }
    new["metadata"] = Value::Object(metadata);
    // Those that the webhook left as they were are stored already.
    if new["metadata"] != old["metadata"] {
        let causes = strategy::validate_labels_and_annotations(&new["metadata"]);
        if !causes.is_empty() {
            let said: Vec<String> =
                causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
            return Err(said.join(", "));
        }
    }
    Ok(())
}

/// Refuses labels or annotations that are no mapping of texts: clients could not read such an object, nor a list with it.
fn require_strings(field: &str, value: &Value) -> Result<(), String> {
    let Some(map) = value.as_object() else {
        return Err(format!("metadata.{field} must be a mapping, but is {value} in converted object"));
    };
    match map.iter().find(|(_, value)| !value.is_string()) {
        Some((key, value)) => {
            Err(format!("metadata.{field}[{key}] must be a string, but is {value} in converted object"))
        }
        None => Ok(()),
    }
}
