//! Access to the recordings of the reference.

use std::{collections::BTreeMap, sync::LazyLock};

use longboat_api::v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig};
use longboat_golden::Entry;
use longboat_key::{Key, Namespace};
use serde_json::Value;

use crate::{ConfigSet, Inputs, Layer, Platform, PresetNames, platform::PlatformError};

#[expect(clippy::print_stderr, reason = "a test's findings are for whoever runs it")]
pub(super) fn remark(text: &str) {
    eprintln!("{text}");
}

/// The text of a file without the final newline. Returns `None` if the file does not exist.
pub(super) fn text(file: &Entry) -> Option<String> {
    file.text().map(|text| text.trim_end_matches('\n').to_owned())
}

/// Reads a YAML file. An empty file is an empty object.
pub(super) fn yaml(file: &Entry) -> Value {
    let value = file.yaml();
    if value.is_null() { Value::Object(serde_json::Map::new()) } else { value }
}

/// The presets in the form in which the reference stored them.
pub(super) fn recorded_presets(golden: &Entry) -> Vec<LLMInferenceServiceConfig> {
    serde_saphyr::from_multiple(&golden.join("base/presets-stored.yaml").read()).unwrap()
}

/// The platform settings of a case. `variant` is the name in its `about.txt`.
pub(super) fn platform(golden: &Entry, variant: Option<&str>) -> Result<Platform, PlatformError> {
    let file = match variant {
        None => golden.join("base/configmap.yaml"),
        Some(variant) => golden.join(&format!("base/variants/{variant}.yaml")),
    };
    let map = yaml(&file);
    let data: BTreeMap<String, String> = serde_json::from_value(map["data"].clone()).unwrap();
    Platform::parse(&data, Namespace("kserve"))
}

/// The inputs of a service in an installation with the usual names and no ConfigMaps.
pub(super) fn inputs<'a>(
    service: &'a LLMInferenceService,
    configs: &'a ConfigSet,
    platform: &'a Platform,
) -> Inputs<'a> {
    static NAMES: LazyLock<PresetNames> = LazyLock::new(PresetNames::default);
    static CONFIG_MAPS: BTreeMap<Key, BTreeMap<String, String>> = BTreeMap::new();
    Inputs {
        service,
        configs,
        config_maps: &CONFIG_MAPS,
        platform,
        system_namespace: Namespace("kserve"),
        preset_names: &NAMES,
    }
}

/// Creates a source of configs.
pub(super) fn config_set(configs: &[LLMInferenceServiceConfig]) -> ConfigSet {
    configs.iter().map(|config| Layer::new(config).unwrap()).collect()
}

/// Returns the source with additional configs. The configs in `base` are shared.
pub(super) fn with_configs(base: &ConfigSet, configs: &[LLMInferenceServiceConfig]) -> ConfigSet {
    let mut set = base.clone();
    for config in configs {
        set.insert(Layer::new(config).unwrap());
    }
    set
}

/// Deserializes a service.
pub(super) fn service(json: Value) -> LLMInferenceService {
    serde_json::from_value(json).unwrap()
}

/// Whether two trees are equal. Numbers are compared by value.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(k, v)| b.get(k).is_some_and(|w| same(v, w)))
        }
        _ => a == b,
    }
}

/// Returns the paths at which two trees differ, with both values.
pub(super) fn differences(ours: &Value, theirs: &Value) -> Vec<String> {
    fn walk(path: &str, a: &Value, b: &Value, out: &mut Vec<String>) {
        match (a, b) {
            (Value::Object(a), Value::Object(b)) => {
                for key in a.keys().chain(b.keys().filter(|k| !a.contains_key(*k))) {
                    walk(
                        &format!("{path}.{key}"),
                        a.get(key).unwrap_or(&Value::Null),
                        b.get(key).unwrap_or(&Value::Null),
                        out,
                    );
                }
            }
            (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
                a.iter().zip(b).enumerate().for_each(|(i, (a, b))| walk(&format!("{path}[{i}]"), a, b, out));
            }
            _ if !same(a, b) => out.push(format!("{path}: ours {a}, theirs {b}")),
            _ => {}
        }
    }
    let mut out = Vec::new();
    walk("", ours, theirs, &mut out);
    out
}
