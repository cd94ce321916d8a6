//! Namespaces.

use serde_json::{Value, json};

use super::{
    Strategy,
    checks::NOT_DISTINCT,
    names::{NAMESPACE_NAME, NameRule},
};
use crate::Field;

/// Namespaces.
#[derive(Debug)]
pub(crate) struct Namespace;

impl Strategy for Namespace {
    fn default(&self, value: &mut Value) {
        if let Some(name) = value["metadata"]["name"].as_str().map(str::to_owned) {
            value["metadata"]["labels"][NAMESPACE_NAME] = Value::from(name);
        }
    }

    fn prepare_create(&self, value: &mut Value) {
        value["status"] = json!({"phase": "Active"});
        let finalizers = value["spec"]["finalizers"].as_array().cloned().unwrap_or_default();
        if !finalizers.iter().any(|f| f == "kubernetes") {
            let mut all = finalizers;
            all.push(Value::from("kubernetes"));
            value["spec"]["finalizers"] = Value::Array(all);
        }
        self.default(value);
    }

    fn prepare_update(&self, value: &mut Value, live: &Value) {
        // only the `finalize` subresource changes the finalizers in the spec
        if let Some(finalizers) = live["spec"].get("finalizers") {
            value["spec"]["finalizers"] = finalizers.clone();
        }
    }

    fn validate(&self, object: &Field<'_>, _live: Option<&Value>) {
        for finalizer in object.items("spec.finalizers") {
            if finalizer.as_text() != "kubernetes" && !finalizer.as_text().contains('/') {
                finalizer.named("spec.finalizers").invalid(NOT_DISTINCT);
            }
        }
    }

    fn is_held(&self, value: &Value) -> bool {
        value["spec"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
    }

    fn terminate(&self, value: &mut Value) {
        value["status"]["phase"] = Value::from("Terminating");
        if let Some(metadata) = value.pointer_mut("/metadata").and_then(Value::as_object_mut) {
            metadata.remove("deletionGracePeriodSeconds");
        }
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Label
    }

    fn selectable(&self) -> &'static [&'static str] {
        &["status.phase"]
    }

    fn metadata_validations(&self) -> usize {
        4
    }
}
