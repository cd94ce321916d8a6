//! The ConfigMap `inferenceservice-config`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{Values, metadata::metadata};

/// The data of the ConfigMap: each key has JSON as text.
pub(crate) fn data(values: &Values) -> BTreeMap<String, String> {
    let settings = values.platform.settings.iter();
    settings.map(|(key, value)| (key.clone(), Value::Object(value.clone()).to_string())).collect()
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
