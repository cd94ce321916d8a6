//! All objects of an installation, in the order in which they are written.

use longboat_admission::configurations::{Configurations, configurations};
use longboat_api::crd::{self, WebhookTarget};
use longboat_compose::{
    PresetNames,
    presets::{self, BrokenPreset},
};
use longboat_key::{Namespace, names::is_label};
use serde_json::{Value, json};

use crate::{
    Values, certificates, check::NAMESPACE, controller, metadata::label, monitoring, picker, platform,
    rights, values::ValuesError,
};

/// The objects to write to a cluster. Each part needs the one before: kinds must exist before their objects, and presets go
/// through the webhooks.
#[derive(Clone, Debug, PartialEq)]
pub struct Installation {
    /// The definitions of our kinds.
    pub definitions: Vec<Value>,
    /// The namespace, the controller, its rights, and how API servers reach it.
    pub controller: Vec<Value>,
    /// The presets of services.
    pub presets: Vec<Value>,
}

/// Why an installation cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The values are invalid.
    #[error(transparent)]
    Values(#[from] ValuesError),
    /// The rights or the alerts do not parse, which is a mistake in this build.
    #[error("cannot parse a file of deploy: {0}")]
    Parse(#[from] serde_saphyr::Error),
    /// A preset does not parse, which is a mistake in this build.
    #[error(transparent)]
    Preset(#[from] BrokenPreset),
    /// An object cannot be serialized as JSON, which is a mistake in this build.
    #[error("cannot build an object of the installation: {0}")]
    Object(#[from] serde_json::Error),
    /// An object cannot be serialized as YAML, which is a mistake in this build.
    #[error("cannot print an object of the installation: {0}")]
    Print(serde_saphyr::ser::Error),
}

// === impl Installation ===

impl Installation {
    /// Creates the installation in `namespace`.
    ///
    /// # Errors
    ///
    /// [`InstallError`].
    pub fn new(namespace: &str, values: &Values) -> Result<Self, InstallError> {
        if !is_label(namespace) {
            let value = namespace.to_owned();
            return Err(
                ValuesError::Value { path: "--namespace".to_owned(), value, expected: NAMESPACE }.into()
            );
        }
        let mut definitions = definitions(namespace, values);
        let mut objects = Vec::new();
        if values.create_namespace {
            objects.push(labelled(
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
            ));
        }
        objects.extend(rights::objects(namespace, values)?);
        if values.platform.create {
            objects.push(platform::config_map(namespace, values));
        }
        objects.push(controller::webhook_service(namespace)?);
        if values.metrics.enabled {
            objects.push(controller::metrics_service(namespace));
        }
        if values.cert_manager {
            objects.extend(certificates::objects(namespace));
        }
        objects.push(controller::disruption_budget(namespace));
        objects.push(controller::deployment(namespace, values));
        if values.shared_picker.enabled {
            objects.extend(picker::objects(namespace, values)?);
        }
        let mut webhooks = webhooks(namespace, values)?;
        if values.cert_manager {
            for object in definitions.iter_mut().chain(&mut webhooks) {
                certificates::inject(object, namespace);
            }
        }
        objects.extend(webhooks);
        if values.monitoring.enabled {
            objects.extend(monitoring::objects(namespace, values)?);
        }
        let mut presets = Vec::new();
        if values.create_presets {
            let names = PresetNames { prefix: values.preset_prefix.clone(), versioned: true };
            presets.extend(presets::documents(&names, Namespace(namespace))?.into_iter().map(labelled));
        }
        Ok(Self { definitions, controller: objects, presets })
    }

    /// Every object, in order.
    pub fn objects(&self) -> impl Iterator<Item = &Value> {
        self.definitions.iter().chain(&self.controller).chain(&self.presets)
    }
}

fn definitions(namespace: &str, values: &Values) -> Vec<Value> {
    let mut all = crd::own_for(&target(namespace, values));
    all.iter_mut().for_each(label);
    all
}

fn target(namespace: &str, values: &Values) -> WebhookTarget {
    if values.webhook_url.is_empty() {
        WebhookTarget::Service { namespace: Namespace(namespace).to_shared() }
    } else {
        WebhookTarget::Url { base: values.webhook_url.clone() }
    }
}

fn webhooks(namespace: &str, values: &Values) -> Result<Vec<Value>, serde_json::Error> {
    let Configurations { mutating, validating } = configurations(&target(namespace, values));
    let mut all = vec![serde_json::to_value(mutating)?];
    for one in validating {
        all.push(serde_json::to_value(one)?);
    }
    all.iter_mut().for_each(label);
    Ok(all)
}

fn labelled(mut object: Value) -> Value {
    label(&mut object);
    object
}
