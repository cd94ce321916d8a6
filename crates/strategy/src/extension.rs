//! Kinds that extend the API: definitions of custom resources, and webhook configurations.

use serde_json::{Value, json};

use super::{
    Strategy,
    update::{differs, keep_labels},
    webhooks,
};
use crate::Field;

/// CustomResourceDefinitions.
#[derive(Debug)]
pub(crate) struct Definition;

impl Strategy for Definition {
    fn default(&self, value: &mut Value) {
        longboat_schema::default_crd(value);
    }

    fn prepare_create(&self, value: &mut Value) {
        value["status"] = json!({});
        longboat_schema::default_crd(value);
    }

    fn prepare_update(&self, value: &mut Value, _live: &Value) {
        // a new storage version is recorded at once, because objects may be stored in it from now on
        for version in value["spec"]["versions"].as_array().cloned().unwrap_or_default() {
            let stored = value.pointer_mut("/status/storedVersions").and_then(Value::as_array_mut);
            if version["storage"] == true
                && let Some(stored) = stored
                && !stored.contains(&version["name"])
            {
                stored.push(version["name"].clone());
            }
        }
    }

    fn prepare_status(&self, value: &mut Value, live: &Value) {
        keep_labels(value, live);
    }

    fn validate(&self, object: &Field<'_>, live: Option<&Value>) {
        longboat_schema::validate_crd(object, live);
    }
}

/// MutatingWebhookConfigurations and ValidatingWebhookConfigurations.
#[derive(Debug)]
pub(crate) struct WebhookConfiguration;

impl Strategy for WebhookConfiguration {
    fn validate(&self, object: &Field<'_>, _live: Option<&Value>) {
        webhooks::validate(object);
    }

    fn is_new_generation(&self, value: &Value, live: &Value) -> bool {
        differs(value, live, true)
    }
}
