//! What `kubectl apply` makes of a manifest and the object that the cluster has.

use longboat_api::{
    annotations::LAST_APPLIED,
    v1alpha2::{API_VERSION, GROUP},
};
use longboat_key::{Key, Name, Namespace};
use longboat_manifest::Document;
use serde_json::{Map, Value};

use super::Scene;
use crate::Settings;

/// The fields of a service that people write.
const FIELDS: [&str; 3] = ["/spec", "/metadata/labels", "/metadata/annotations"];

impl Scene {
    /// Returns a manifest as it would be stored, or `None` if as it is. If `kubectl apply` or `up` has written the service before, a
    /// field that somebody else has written stays, unless the manifest has it, too.
    pub(super) fn applied(&self, document: &Document, settings: &Settings) -> Option<Document> {
        let is_service = document.kind() == "LLMInferenceService" && document.group() == GROUP;
        // Older versions have other fields.
        if !is_service || document.api_version() != API_VERSION {
            return None;
        }
        let namespace = match document.namespace() {
            "" => settings.namespace.as_deref(),
            own => Namespace(own),
        };
        let live = self.subject(&Key::new(namespace, Name(document.name())))?;
        let record = live.service.metadata.annotations.as_ref()?.get(LAST_APPLIED)?;
        let last: Value = serde_json::from_str(record).ok()?;
        if last["apiVersion"] != API_VERSION {
            return None;
        }
        let live = serde_json::to_value(&*live.service).ok()?;
        let mut document = document.clone();
        for field in FIELDS {
            let Some(live) = live.pointer(field) else { continue };
            let none = Value::Object(Map::new());
            let merged = merged(live, document.object.pointer(field).unwrap_or(&none), last.pointer(field));
            match field.strip_prefix("/metadata/") {
                Some(name) => document.object["metadata"][name] = merged,
                None => document.object["spec"] = merged,
            }
        }
        Some(document)
    }
}

/// Returns the object that `kubectl apply` sends: the live object with the fields of the manifest, and without those that only the manifest
/// applied before had.
pub fn merge_manifest(live: &Value, manifest: &Value) -> Value {
    let record = live["metadata"]["annotations"][LAST_APPLIED].as_str();
    let last: Option<Value> = record.and_then(|record| serde_json::from_str(record).ok());
    merged(live, manifest, last.as_ref())
}

/// Merges a manifest into the live value. Lists are replaced as a whole, as in all custom resources.
fn merged(live: &Value, given: &Value, last: Option<&Value>) -> Value {
    let (Value::Object(fields), Value::Object(given)) = (live, given) else { return given.clone() };
    let mut fields = fields.clone();
    let is_removed =
        |name: &String| last.is_some_and(|last| last.get(name).is_some()) && !given.contains_key(name);
    fields.retain(|name, _| !is_removed(name));
    for (name, value) in given {
        let value = match fields.get(name) {
            Some(live) => merged(live, value, last.and_then(|last| last.get(name))),
            None => value.clone(),
        };
        fields.insert(name.clone(), value);
    }
    fields.into()
}
