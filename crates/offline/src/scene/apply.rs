//! What `kubectl apply` makes of a manifest and the object that the cluster has.

use longboat_api::{
    annotations::LAST_APPLIED,
    v1alpha2::{API_VERSION, GROUP},
};
use longboat_key::{Key, Name, Namespace};
use longboat_manifest::Document;
use serde_json::Value;

use super::Scene;
use crate::Settings;

/// The fields of a service that people write.
const FIELDS: [&str; 3] = ["/spec", "/metadata/labels", "/metadata/annotations"];

impl Scene {
    /// Returns a manifest as it would be stored. If `kubectl apply` or `up` has written the service before, a field that somebody else
    /// has written stays, unless the manifest has it, too.
    pub(super) fn applied(&self, document: &Document, settings: &Settings) -> Document {
        let is_service = document.kind() == "LLMInferenceService" && document.group() == GROUP;
        // Older versions have other fields.
        if !is_service || document.api_version() != API_VERSION {
            return document.clone();
        }
        let namespace = match document.namespace() {
            "" => settings.namespace.as_deref(),
            own => Namespace(own),
        };
        let Some(live) = self.subject(&Key::new(namespace, Name(document.name()))) else {
            return document.clone();
        };
        let annotations = live.service.metadata.annotations.as_ref();
        let last =
            annotations.and_then(|annotations| serde_json::from_str(annotations.get(LAST_APPLIED)?).ok());
        let (Some(last), Ok(live)) = (last, serde_json::to_value(&*live.service)) else {
            return document.clone();
        };
        let last: Value = last;
        if last["apiVersion"] != API_VERSION {
            return document.clone();
        }
        let mut document = document.clone();
        for field in FIELDS {
            let (Some(live), Some(given)) = (live.pointer(field), document.object.pointer_mut(field)) else {
                continue;
            };
            *given = merged(live, given, last.pointer(field));
        }
        document
    }
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
