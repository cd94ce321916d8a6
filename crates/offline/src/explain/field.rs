//! One field of an effective spec: who set it, how, and over what.

use longboat_api::v1alpha2::{ConfigSource, LLMInferenceService};
use longboat_compose::{Effective, Leaf, Origin};
use serde::Serialize;
use serde_json::Value;

use crate::{
    paths::{self, Step},
    scene::Scene,
};

/// A field and its history.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Field {
    /// Its path, from `spec` on.
    pub path: String,
    /// Its final value.
    pub value: Value,
    /// Who set it.
    pub set_by: Setter,
    /// The template that printed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<Template>,
    /// The rule that made it, or changed what the layer says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// What it replaced, latest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<Previous>,
}

/// Who set a field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Setter {
    /// What kind of layer.
    pub kind: SetterKind,
    /// `namespace/name` of a config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// `file:line:column`, where it comes from a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

/// The kinds of layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SetterKind {
    /// A config of the platform, chosen by the shape of the service.
    Preset,
    /// A config that the service names.
    BaseRef,
    /// The service.
    Spec,
    /// What admission fills in.
    Default,
    /// Composing itself.
    Computed,
}

/// A template, and what it ran on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Template {
    /// As its layer has it.
    pub text: String,
    /// What it read.
    pub inputs: Vec<Input>,
}

/// What a template read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Input {
    /// As the template names it.
    pub field: String,
    /// Where it is in the service; none for settings of the platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its value; none if it is not set.
    pub value: Option<Value>,
}

/// A value that a higher layer replaced.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Previous {
    /// Who had set it.
    pub set_by: Setter,
    /// As that layer has it.
    pub value: Value,
}

/// The fields at and below a path.
pub(super) fn fields(
    scene: &Scene,
    service: &LLMInferenceService,
    effective: &Effective,
    wanted: &[Step],
) -> Vec<Field> {
    let view = View { scene, service, effective };
    let provenance = effective.provenance();
    let found = provenance.iter().filter(|(path, leaf)| paths::leads_to(wanted, path, &leaf.pointer));
    found.map(|(path, leaf)| view.field(path, leaf)).collect()
}

/// What fields are described with.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) scene: &'a Scene,
    pub(super) service: &'a LLMInferenceService,
    pub(super) effective: &'a Effective,
}

// === impl View ===

impl View<'_> {
    pub(super) fn field(&self, path: &str, leaf: &Leaf) -> Field {
        let template = leaf.given.as_ref().and_then(Value::as_str).filter(|text| text.contains("{{"));
        Field {
            path: format!("spec.{path}"),
            value: leaf.value.clone(),
            set_by: self.setter(&leaf.origin, path),
            template: template.map(|text| Template {
                text: text.to_owned(),
                inputs: self.effective.template_inputs(text).into_iter().map(Input::from).collect(),
            }),
            rule: leaf.rule.map(ToOwned::to_owned),
            replaced: leaf
                .replaced
                .iter()
                .map(|old| Previous { set_by: self.setter(&old.origin, path), value: old.value.clone() })
                .collect(),
        }
    }

    pub(super) fn setter(&self, origin: &Origin, path: &str) -> Setter {
        match origin {
            Origin::Derived => Setter { kind: SetterKind::Computed, config: None, place: None },
            Origin::Service => {
                let metadata = &self.service.metadata;
                let found = self.scene.document(
                    "LLMInferenceService",
                    metadata.namespace.as_deref().unwrap_or_default(),
                    metadata.name.as_deref().unwrap_or_default(),
                );
                let Some(document) = found else {
                    return Setter { kind: SetterKind::Spec, config: None, place: None };
                };
                match paths::positions(&document.object, &format!("spec.{path}")) {
                    Some(written) => {
                        Setter { kind: SetterKind::Spec, config: None, place: Some(document.place(&written)) }
                    }
                    None => Setter { kind: SetterKind::Default, config: None, place: None },
                }
            }
            Origin::Config { namespace, name } => {
                let place =
                    self.scene.document("LLMInferenceServiceConfig", namespace, name).map(|document| {
                        let written = paths::positions(&document.object, &format!("spec.{path}"));
                        document.place(&written.unwrap_or_else(|| format!("spec.{path}")))
                    });
                let applied = self.effective.applied.iter();
                let is_preset = applied
                    .filter(|config| config.name == *name && config.namespace == *namespace)
                    .any(|config| matches!(config.source, ConfigSource::Preset));
                Setter {
                    kind: if is_preset { SetterKind::Preset } else { SetterKind::BaseRef },
                    config: Some(format!("{namespace}/{name}")),
                    place,
                }
            }
        }
    }
}

impl From<longboat_compose::TemplateInput> for Input {
    fn from(input: longboat_compose::TemplateInput) -> Self {
        Self { field: input.field, path: input.path, value: input.value }
    }
}
