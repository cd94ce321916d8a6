//! Access to the recordings of the reference.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use longboat_api::v1alpha2::{LLMInferenceService, LLMInferenceServiceConfig};
use serde_json::Value;

use crate::{ConfigSet, Layer, Platform, platform::PlatformError};

/// The folder of recordings, or nothing with a loud remark; a missing folder fails where `CI` is set.
pub(super) fn golden() -> Option<PathBuf> {
    let root = std::env::var_os("LONGBOAT_GOLDEN")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/golden"), PathBuf::from);
    if root.is_dir() {
        return Some(root);
    }
    assert!(std::env::var_os("CI").is_none(), "no recordings in {}", root.display());
    remark(&format!("SKIPPED: no recordings of the reference in {}", root.display()));
    None
}

#[expect(clippy::print_stderr, reason = "a test's findings are for whoever runs it")]
pub(super) fn remark(text: &str) {
    eprintln!("{text}");
}

/// Folders in `parent`, by name.
pub(super) fn folders(parent: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<_> =
        fs::read_dir(parent).unwrap().map(|entry| entry.unwrap().path()).filter(|p| p.is_dir()).collect();
    folders.sort();
    folders
}

/// The name of a folder.
pub(super) fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// A file's text without the final newline; none if there is no such file.
pub(super) fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim_end_matches('\n').to_owned())
}

/// A YAML file; an empty one is an empty object.
pub(super) fn yaml(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap();
    let value: Value = serde_saphyr::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    if value.is_null() { Value::Object(serde_json::Map::new()) } else { value }
}

/// The presets as the reference stored them.
pub(super) fn recorded_presets(golden: &Path) -> Vec<LLMInferenceServiceConfig> {
    let text = fs::read_to_string(golden.join("base/presets-stored.yaml")).unwrap();
    serde_saphyr::from_multiple(&text).unwrap()
}

/// The platform settings of a case: `variant` as its `about.txt` names it.
pub(super) fn platform(golden: &Path, variant: Option<&str>) -> Result<Platform, PlatformError> {
    let file = match variant {
        None => golden.join("base/configmap.yaml"),
        Some(variant) => golden.join(format!("base/variants/{variant}.yaml")),
    };
    let map = yaml(&file);
    let data: BTreeMap<String, String> = serde_json::from_value(map["data"].clone()).unwrap();
    Platform::parse(&data, "kserve")
}

/// Configs as a source.
pub(super) fn config_set(configs: &[LLMInferenceServiceConfig]) -> ConfigSet {
    configs.iter().map(|config| Layer::new(config).unwrap()).collect()
}

/// A source with more configs in it; what `base` holds is shared.
pub(super) fn with_configs(base: &ConfigSet, configs: &[LLMInferenceServiceConfig]) -> ConfigSet {
    let mut set = base.clone();
    for config in configs {
        set.insert(Layer::new(config).unwrap());
    }
    set
}

/// A service.
pub(super) fn service(json: Value) -> LLMInferenceService {
    serde_json::from_value(json).unwrap()
}

/// Whether two trees mean the same: numbers by value, and nothing else is forgiven.
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

/// Paths at which two trees differ, with both sides.
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
