//! The layers of a service in order, with the fields that each one sets.

use longboat_api::v1alpha2::ConfigSource;
use longboat_compose::presets;
use longboat_key::Key;
use serde::Serialize;
use serde_json::Value;

use super::field::{Setter, SetterKind, View};

/// One layer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LayerView {
    /// The layer.
    #[serde(flatten)]
    pub layer: Setter,
    /// Why it is a layer of this service.
    pub because: String,
    /// The fields that it sets in the composed spec.
    pub sets: Vec<Setting>,
    /// The fields that it sets and that a higher layer replaces or removes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<Setting>,
}

/// A field and its value in a layer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Setting {
    /// Its path, starting with `spec`.
    pub path: String,
    /// The final value, or the value that was lost.
    pub value: Value,
    /// The layer that replaced it, or the rule that created it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl LayerView {
    fn new(layer: Setter, because: String) -> Self {
        Self { layer, because, sets: Vec::new(), lost: Vec::new() }
    }
}

/// Returns all layers, lowest first. The defaults of admission and the values computed by composition come last.
pub(super) fn of(view: View<'_>) -> Vec<LayerView> {
    let View { scene, service, effective } = view;
    let provenance = effective.provenance();
    let mut layers: Vec<LayerView> = Vec::new();
    // The references of a service are its last layers, in their order.
    let base_refs = effective.applied.len().saturating_sub(service.spec.base_refs.len());
    for (at, (config, layer)) in effective.applied.iter().zip(effective.layers()).enumerate() {
        let origin = layer.origin();
        let because = match config.source {
            ConfigSource::ServingRuntime => "spec.runtime".to_owned(),
            ConfigSource::UserRef if at >= base_refs => format!("spec.baseRefs[{}]", at - base_refs),
            source => {
                let name = layer.name().as_str();
                let suffix = name.strip_prefix(&scene.preset_names.prefix).unwrap_or(name);
                // A pinned name may have another release's prefix.
                let suffix = suffix.find("config-llm-").map_or(suffix, |at| &suffix[at..]);
                let why = presets::why(suffix);
                if source == ConfigSource::Preset {
                    why.to_owned()
                } else {
                    format!("in place of the platform's preset: {why}")
                }
            }
        };
        layers.push(LayerView::new(view.setter(&origin, ""), because));
    }
    let mut add = |kind: SetterKind, place: Option<String>, because: &str| {
        layers.push(LayerView::new(Setter { kind, config: None, place }, because.to_owned()));
    };
    let document = scene.document("LLMInferenceService", &Key::of(service));
    add(SetterKind::Spec, document.map(|document| document.place("spec")), "the service's own spec");
    add(SetterKind::Default, None, "set by admission");
    add(SetterKind::Computed, None, "derived from other fields");

    let mut put = |setter: &Setter, lost: bool, setting: Setting| {
        let same =
            |layer: &&mut LayerView| layer.layer.kind == setter.kind && layer.layer.config == setter.config;
        if let Some(layer) = layers.iter_mut().find(same) {
            if lost { layer.lost.push(setting) } else { layer.sets.push(setting) }
        }
    };
    for (path, leaf) in provenance.iter() {
        let setter = view.setter(&leaf.origin, path);
        let full = format!("spec.{path}");
        let by = leaf.rule.map(ToOwned::to_owned);
        put(&setter, false, Setting { path: full.clone(), value: leaf.value.clone(), by });
        let mut winner = leaf.origin.to_string();
        for old in &leaf.replaced {
            // Replacing a value by an equal one is no loss, and neither is replacing an empty string.
            if leaf.layer_value.as_ref() != Some(&old.value) && old.value != "" {
                let by = Some(winner.clone());
                let setting = Setting { path: full.clone(), value: old.value.clone(), by };
                put(&view.setter(&old.origin, path), true, setting);
            }
            winner = old.origin.to_string();
        }
    }
    for (path, entries) in provenance.gone() {
        for old in entries {
            let setting = Setting { path: format!("spec.{path}"), value: old.value.clone(), by: None };
            put(&view.setter(&old.origin, path), true, setting);
        }
    }
    layers.retain(|layer| {
        !matches!(layer.layer.kind, SetterKind::Default | SetterKind::Computed) || !layer.sets.is_empty()
    });
    layers
}
