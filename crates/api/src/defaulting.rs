//! Defaults that the mutating webhook fills in. Every reconcile fills them in again in memory.

use serde_json::{Map, Value, json};

use crate::labels;
use crate::uri::{InvalidUri, Uri};
use crate::v1alpha2::LLMInferenceService;

/// Pod specs in which a missing list of containers becomes an empty one, so that merging keeps a preset's list.
const POD_SPECS: [&str; 5] = [
    "/spec/template",
    "/spec/worker",
    "/spec/prefill/template",
    "/spec/prefill/worker",
    "/spec/router/scheduler/template",
];

/// Fills in the missing fields of a stored service: the name and an empty URI of the model, the label of the routing group,
/// empty lists of containers, and required fields whose zero value is valid. Normalises URIs. Unknown fields and explicit
/// zero values stay unchanged.
///
/// Parts of the wrong JSON type stay unchanged, because decoding reports them better. Fails if a model URI is invalid; the
/// error names the field.
pub fn apply(service: &mut Value) -> Result<(), InvalidField> {
    let name = service.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    default_model(service, &name)?;
    default_group_label(service);
    for pointer in POD_SPECS {
        if let Some(Value::Object(pod)) = service.pointer_mut(pointer) {
            default_field(pod, "containers", json!([]));
        }
    }
    for (pointer, field, zero) in [
        ("/spec/kvCacheOffloading", "cpu", json!("0")),
        ("/spec/prefill/kvCacheOffloading", "cpu", json!("0")),
        ("/spec/model/confidential", "enabled", json!(false)),
        ("/spec/router/scheduler/config/ref", "key", json!("")),
        // This field is from v1alpha1.
        ("/spec/router/scheduler/pool/spec/extensionRef", "failureMode", json!("FailClose")),
    ] {
        if let Some(Value::Object(object)) = service.pointer_mut(pointer) {
            default_field(object, field, zero);
        }
    }
    for pointer in ["/spec/kvCacheOffloading/secondary", "/spec/prefill/kvCacheOffloading/secondary"] {
        for tier in service.pointer_mut(pointer).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(Value::Object(folder)) = tier.pointer_mut("/fileSystem/emptyDir") {
                default_field(folder, "size", json!("0"));
            }
        }
    }
    Ok(())
}

/// Like [`apply`], for a typed service at the start of a reconcile: objects that were stored before the webhook existed
/// behave as if they had been defaulted.
pub fn apply_typed(service: &mut LLMInferenceService) {
    let model = &mut service.spec.model;
    if model.name.as_deref().unwrap_or_default().is_empty() {
        model.name.clone_from(&service.metadata.name);
    }
    let group = service.spec.router.as_ref().and_then(|r| r.route.as_ref()).and_then(|r| r.group.clone());
    match group {
        Some(group) => {
            service.metadata.labels.get_or_insert_default().insert(labels::ROUTING_GROUP.to_owned(), group);
        }
        None => {
            if let Some(labels) = &mut service.metadata.labels {
                labels.remove(labels::ROUTING_GROUP);
            }
        }
    }
}

/// A field has an invalid value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {source}")]
pub struct InvalidField {
    /// Path of the field.
    pub field: String,
    /// The problem, in KServe's words.
    pub source: InvalidUri,
}

fn default_model(service: &mut Value, name: &str) -> Result<(), InvalidField> {
    let Value::Object(root) = service else { return Ok(()) };
    let Value::Object(spec) = default_field(root, "spec", json!({})) else { return Ok(()) };
    let Value::Object(model) = default_field(spec, "model", json!({})) else { return Ok(()) };
    let named = model.get("name").is_some_and(|n| n.as_str().is_none_or(|n| !n.is_empty()) && !n.is_null());
    if !named && !name.is_empty() {
        model.insert("name".to_owned(), json!(name));
    }
    // The schema requires a URI, and a config may have it instead.
    default_field(model, "uri", json!(""));
    normalise_uris(model, "spec.model")
}

/// Normalises the URIs of a model and of its adapters.
fn normalise_uris(model: &mut Map<String, Value>, path: &str) -> Result<(), InvalidField> {
    if let Some(Value::String(text)) = model.get_mut("uri") {
        let uri = Uri::parse(text).map_err(|source| InvalidField { field: format!("{path}.uri"), source })?;
        if uri.as_str() != text {
            uri.as_str().clone_into(text);
        }
    }
    let adapters = model.get_mut("lora").and_then(|l| l.get_mut("adapters")).and_then(Value::as_array_mut);
    for (i, adapter) in adapters.into_iter().flatten().enumerate() {
        if let Value::Object(adapter) = adapter {
            normalise_uris(adapter, &format!("{path}.lora.adapters[{i}]"))?;
        }
    }
    Ok(())
}

/// Sets the label from the spec. Removes a label that was set by hand.
fn default_group_label(service: &mut Value) {
    let group = service.pointer("/spec/router/route/group").and_then(Value::as_str).map(str::to_owned);
    let Some(Value::Object(metadata)) = service.get_mut("metadata") else { return };
    match group {
        Some(group) => {
            if let Value::Object(labels) = default_field(metadata, "labels", json!({})) {
                labels.insert(labels::ROUTING_GROUP.to_owned(), json!(group));
            }
        }
        None => {
            if let Some(Value::Object(labels)) = metadata.get_mut("labels") {
                labels.remove(labels::ROUTING_GROUP);
            }
        }
    }
}

/// Returns the field, after setting it if it is missing or null.
fn default_field<'a>(object: &'a mut Map<String, Value>, field: &str, default: Value) -> &'a mut Value {
    let value = object.entry(field).or_insert(Value::Null);
    if value.is_null() {
        *value = default;
    }
    value
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::apply;

    #[test]
    fn a_service_without_model_gets_its_own_name_and_an_empty_uri() {
        let mut service = json!({"metadata": {"name": "llm"}, "spec": {"baseRefs": [{"name": "a"}]}});
        apply(&mut service).unwrap();
        assert_eq!(
            service,
            json!({
                "metadata": {"name": "llm"},
                "spec": {"baseRefs": [{"name": "a"}], "model": {"name": "llm", "uri": ""}},
            })
        );
    }

    #[test]
    fn defaulting_twice_changes_nothing_more() {
        let mut once = json!({
            "metadata": {"name": "llm", "labels": {"serving.kserve.io/routing-group": "by-hand"}},
            "spec": {
                "model": {"uri": "HF://org/a b", "lora": {"adapters": [{"name": "x", "uri": "S3://b/c"}]}},
                "template": {"containers": null, "unknown": 0},
                "prefill": {"worker": {}},
                "kvCacheOffloading": {},
                "router": {"scheduler": {"template": {}, "config": {"ref": {"name": "c"}}}},
            },
        });
        apply(&mut once).unwrap();
        let mut twice = once.clone();
        apply(&mut twice).unwrap();
        assert_eq!(once, twice);
        let wanted = json!({
            "metadata": {"name": "llm", "labels": {}},
            "spec": {
                "model": {
                    "name": "llm",
                    "uri": "hf://org/a%20b",
                    "lora": {"adapters": [{"name": "x", "uri": "s3://b/c"}]},
                },
                "template": {"containers": [], "unknown": 0},
                "prefill": {"worker": {"containers": []}},
                "kvCacheOffloading": {"cpu": "0"},
                "router": {
                    "scheduler": {"template": {"containers": []}, "config": {"ref": {"name": "c", "key": ""}}},
                },
            },
        });
        assert_eq!(once, wanted);
    }

    #[test]
    fn a_uri_that_is_none_is_refused_by_its_field() {
        let mut service = json!({
            "metadata": {"name": "llm"},
            "spec": {"model": {"uri": "hf://a/b", "lora": {"adapters": [{"uri": "hf://a/%zz"}]}}},
        });
        let error = apply(&mut service).unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"spec.model.lora.adapters[0].uri: parse "hf://a/%zz": invalid URL escape "%zz""#
        );
    }

    #[test]
    fn wrong_types_are_left_for_decoding_to_report() {
        for mut service in [json!({"spec": "x"}), json!({"spec": {"model": []}}), json!([]), json!({})] {
            apply(&mut service).unwrap();
        }
    }
}
