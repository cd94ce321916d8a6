//! The criticality of models, for which `v1alpha2` only has annotations.

use std::collections::BTreeMap;

use longboat_types::quote::escape_html;
use serde_json::{Value, json};

use super::fields::{Fields, annotations, map_at, take_annotation};

/// In `v1alpha2`: the criticality of the model.
pub const MODEL_CRITICALITY: &str = "internal.serving.kserve.io/model-criticality";
/// In `v1alpha2`: the criticalities of its adapters, as a JSON object by position (`{"0":"Standard"}`).
pub const LORA_CRITICALITIES: &str = "internal.serving.kserve.io/lora-criticalities";

/// Converts up: from fields to annotations. Adapters of adapters keep their field, because nothing prunes them. An
/// annotation stays if no field has its value.
pub(super) fn move_to_annotations(object: &mut Fields) -> Result<(), &'static str> {
    let Some(model) = map_at(object, &["spec", "model"]) else { return Ok(()) };
    let own = match model.get("criticality") {
        Some(Value::String(_)) => take_text(model, "criticality"),
        _ => None,
    };
    let of_adapters: ByPosition = adapters(model)
        .into_iter()
        .flatten()
        .enumerate()
        .filter_map(|(at, adapter)| Some((at.to_string(), take_named(adapter.as_object_mut()?)?)))
        .collect();
    if let Some(own) = own {
        annotations(object)?.insert(MODEL_CRITICALITY.to_owned(), Value::String(own));
    }
    if !of_adapters.is_empty() {
        // Escaped as by Go, so that KServe's conversion and this one write the same text.
        let text = escape_html(&json!(of_adapters).to_string());
        annotations(object)?.insert(LORA_CRITICALITIES.to_owned(), Value::String(text));
    }
    Ok(())
}

/// The criticalities of adapters in an annotation, by position.
pub(super) type ByPosition = BTreeMap<String, String>;

/// Removes and returns the annotation with the criticalities of adapters, even if it is invalid. An empty annotation stays.
pub(super) fn take_by_position(object: &mut Fields) -> ByPosition {
    let read = annotation(object, LORA_CRITICALITIES).map(serde_json::from_str::<ByPosition>);
    let Some(read) = read else { return ByPosition::new() };
    take_annotation(object, LORA_CRITICALITIES);
    let mut by_position = read.unwrap_or_default();
    by_position.retain(|_, text| !text.is_empty());
    by_position
}

/// Converts down: from annotations to fields. An empty annotation stays.
pub(super) fn restore(object: &mut Fields, by_position: &ByPosition) {
    if let Some(own) = annotation(object, MODEL_CRITICALITY).map(str::to_owned)
        && let Some(model) = map_at(object, &["spec", "model"])
    {
        model.insert("criticality".to_owned(), Value::String(own));
        take_annotation(object, MODEL_CRITICALITY);
    }
    let Some(model) = map_at(object, &["spec", "model"]) else { return };
    for (at, adapter) in adapters(model).into_iter().flatten().enumerate() {
        if let Some(adapter) = adapter.as_object_mut()
            && let Some(text) = by_position.get(&at.to_string())
        {
            adapter.insert("criticality".to_owned(), Value::String(text.clone()));
        }
    }
}

fn annotation<'a>(object: &'a Fields, key: &str) -> Option<&'a str> {
    let text = object.get("metadata")?.get("annotations")?.get(key)?.as_str()?;
    (!text.is_empty()).then_some(text)
}

/// Returns the adapters of a model.
pub(super) fn adapters(model: &mut Fields) -> Option<&mut Vec<Value>> {
    map_at(model, &["lora"])?.get_mut("adapters")?.as_array_mut()
}

/// Removes and returns the criticality of an adapter if it is a non-empty text. Other values are left alone.
pub(super) fn take_named(adapter: &mut Fields) -> Option<String> {
    match adapter.get("criticality") {
        Some(Value::String(text)) if !text.is_empty() => take_text(adapter, "criticality"),
        _ => None,
    }
}

fn take_text(map: &mut Fields, key: &str) -> Option<String> {
    match map.remove(key) {
        Some(Value::String(text)) if !text.is_empty() => Some(text),
        _ => None,
    }
}
