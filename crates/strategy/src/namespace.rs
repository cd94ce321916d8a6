//! Namespaces.

use serde_json::{Value, json};

use super::{Strategy, checks, names::NameRule};
use crate::Cause;

/// Namespaces.
#[derive(Debug)]
pub(crate) struct Namespace;

impl Strategy for Namespace {
    fn default(&self, value: &mut Value) {
        if let Some(name) = value["metadata"]["name"].as_str().map(str::to_owned) {
            value["metadata"]["labels"]["kubernetes.io/metadata.name"] = Value::from(name);
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

    fn validate(&self, value: &Value, _live: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        for name in checks::items(&value["spec"], "finalizers") {
            if name != "kubernetes" && !name.as_str().is_some_and(|name| name.contains('/')) {
                let detail = "name is neither a standard finalizer name nor is it fully qualified";
                causes.push(Cause::invalid("spec.finalizers", name, detail));
            }
        }
        causes
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
