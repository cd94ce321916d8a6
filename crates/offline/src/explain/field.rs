//! One field of a composed spec: which layer set it, how, and what it replaced.

use longboat_api::v1alpha2::{ConfigSource, LLMInferenceService};
use longboat_compose::{Effective, Leaf, Origin, TemplateInput};
use longboat_key::Key;
use longboat_plan::paths::{self, Step};
use serde::Serialize;
use serde_json::Value;

use crate::scene::Scene;

/// A field and its history.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Field {
    /// Its path, starting with `spec`.
    pub path: String,
    /// Its final value.
    pub value: Value,
    /// The layer that set it.
    pub set_by: Setter,
    /// The template that rendered it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<Template>,
    /// The rule that created it, or that changed the layer's value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The values that it replaced, latest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<ReplacedValue>,
}

/// The layer that set a field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Setter {
    /// The kind of the layer.
    pub kind: SetterKind,
    /// `namespace/name` of a config or runtime; only the name of a ClusterServingRuntime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// `file:line:column`, if the layer comes from a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

/// The kinds of layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SetterKind {
    /// The runtime of the service.
    Runtime,
    /// A config of the platform, selected by the content of the service.
    Preset,
    /// A config of the user: one to which the service refers, or one that takes the place of a preset.
    BaseRef,
    /// The service.
    Spec,
    /// The defaults of admission.
    Default,
    /// Composition itself.
    Computed,
}

/// A template and its inputs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Template {
    /// Its text in the layer.
    pub text: String,
    /// The fields that it read.
    pub inputs: Vec<TemplateInput>,
}

/// A value that a higher layer replaced.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplacedValue {
    /// The layer that had set it.
    pub set_by: Setter,
    /// The value in that layer.
    pub value: Value,
}

/// Returns the fields at and below a path.
pub(super) fn fields(view: View<'_>, wanted: &[Step]) -> Vec<Field> {
    let provenance = view.effective.provenance();
    let found = provenance.iter().filter(|(path, leaf)| paths::leads_to(wanted, path, &leaf.pointer));
    found.map(|(path, leaf)| view.field(path, leaf)).collect()
}

/// The input for describing fields.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) scene: &'a Scene,
    pub(crate) service: &'a LLMInferenceService,
    pub(crate) effective: &'a Effective,
}

// === impl View ===

impl View<'_> {
    pub(super) fn field(&self, path: &str, leaf: &Leaf) -> Field {
        let template = leaf.layer_value.as_ref().and_then(Value::as_str).filter(|text| text.contains("{{"));
        Field {
            path: format!("spec.{path}"),
            value: leaf.value.clone(),
            set_by: self.setter(&leaf.origin, path),
            template: template
                .map(|text| Template { text: text.to_owned(), inputs: self.effective.template_inputs(text) }),
            rule: leaf.rule.map(ToOwned::to_owned),
            replaced: leaf
                .replaced
                .iter()
                .map(|old| ReplacedValue { set_by: self.setter(&old.origin, path), value: old.value.clone() })
                .collect(),
        }
    }

    pub(super) fn setter(&self, origin: &Origin, path: &str) -> Setter {
        let unplaced = |kind| Setter { kind, config: None, place: None };
        match origin {
            Origin::Derived => unplaced(SetterKind::Computed),
            Origin::Service => {
                let found = self.scene.document("LLMInferenceService", &Key::of(self.service));
                let Some(document) = found else { return unplaced(SetterKind::Spec) };
                match paths::positions(&document.object, &format!("spec.{path}")) {
                    Some(at) => Setter { place: Some(document.place(&at)), ..unplaced(SetterKind::Spec) },
                    // The service has a field that its manifest lacks: admission has set it.
                    None => unplaced(SetterKind::Default),
                }
            }
            Origin::Runtime(key) => Setter {
                kind: SetterKind::Runtime,
                config: Some(key.to_string()),
                place: self.scene.runtime_document(key).map(|document| document.place("spec")),
            },
            Origin::Config(key) => {
                let place = self.scene.config_document(key).map(|document| {
                    let written = paths::positions(&document.object, &format!("spec.{path}"));
                    document.place(&written.unwrap_or_else(|| format!("spec.{path}")))
                });
                let applied = self.effective.applied.iter();
                let is_preset = applied
                    .filter(|config| config.name == *key.name && config.namespace == *key.namespace)
                    .any(|config| matches!(config.source, ConfigSource::Preset));
                Setter {
                    kind: if is_preset { SetterKind::Preset } else { SetterKind::BaseRef },
                    config: Some(key.to_string()),
                    place,
                }
            }
        }
    }
}
