//! The ConfigMap `inferenceservice-config`.

use std::collections::BTreeMap;

use longboat_compose::platform::IMAGE;
use serde_json::{Value, json};

use crate::{Values, metadata::metadata};

/// The key of the settings that only Longboat has and the reference ignores: whose images the presets name, which profile of
/// Pod Security pods comply with, and whether requests prove that services serve.
pub(crate) const IMAGES: &str = "longboat";

/// The data of the ConfigMap: each key has JSON as text.
pub(crate) fn data(values: &Values) -> BTreeMap<String, String> {
    let settings = values.platform.settings.iter();
    let mut data: BTreeMap<String, String> =
        settings.map(|(key, value)| (key.clone(), Value::Object(value.clone()).to_string())).collect();
    // Without this setting, presets name the image of this build.
    if values.image != IMAGE {
        let mut ours = values.platform.settings.get(IMAGES).cloned().unwrap_or_default();
        ours.entry("image").or_insert_with(|| json!(values.image));
        data.insert(IMAGES.to_owned(), Value::Object(ours).to_string());
    }
    data
}

/// The ConfigMap.
pub(crate) fn config_map(namespace: &str, values: &Values) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(longboat_api::names::PLATFORM_CONFIG_MAP, namespace),
        "data": data(values),
    })
}
