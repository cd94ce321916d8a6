//! The plugins of a picker configuration, and the references of profiles to them.

use serde_json::{Map, Value, json};

pub(super) fn plugins(config: &Map<String, Value>) -> &[Value] {
    config.get("plugins").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(super) fn plugins_mut(config: &mut Map<String, Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    config
        .get_mut("plugins")
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
}

pub(super) fn has_plugin(config: &Map<String, Value>, names: &[&str]) -> bool {
    plugins(config).iter().any(|plugin| {
        ["type", "name"]
            .iter()
            .any(|key| plugin.get(key).and_then(Value::as_str).is_some_and(|value| names.contains(&value)))
    })
}

/// The name of a plugin, which defaults to its type.
pub(super) fn name_of(plugin: &Value) -> Option<&str> {
    let field = |key: &str| plugin.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    field("name").or_else(|| field("type"))
}

pub(super) fn is_type(plugin: &Map<String, Value>, name: &str) -> bool {
    plugin.get("type").and_then(Value::as_str) == Some(name)
}

pub(super) fn push_plugin(config: &mut Map<String, Value>, plugin: Value) {
    if let Some(list) = config.entry("plugins").or_insert_with(|| json!([])).as_array_mut() {
        list.push(plugin);
    }
}

/// Renames a plugin type, the plugin's name if it repeats the type, and the references of profiles to it.
pub(super) fn rename_plugin(config: &mut Map<String, Value>, from: &str, to: &str) {
    let mut renamed_name = false;
    let mut found = false;
    for plugin in plugins_mut(config) {
        if is_type(plugin, from) {
            found = true;
            plugin.insert("type".into(), to.into());
            match plugin.get("name").and_then(Value::as_str) {
                None => renamed_name = true,
                Some(name) if name == from => {
                    plugin.insert("name".into(), to.into());
                    renamed_name = true;
                }
                Some(_) => {}
            }
        }
    }
    if found && renamed_name {
        rename_references(config, from, to);
    }
}

pub(super) fn rename_references(config: &mut Map<String, Value>, from: &str, to: &str) {
    let profiles = config.get_mut("schedulingProfiles").and_then(Value::as_array_mut).into_iter().flatten();
    for reference in profiles.filter_map(|profile| profile.get_mut("plugins")?.as_array_mut()).flatten() {
        if reference.get("pluginRef").and_then(Value::as_str) == Some(from) {
            reference["pluginRef"] = to.into();
        }
    }
}

pub(super) fn drop_parameter(plugin: &mut Map<String, Value>, name: &str) {
    if let Some(parameters) = plugin.get_mut("parameters").and_then(Value::as_object_mut) {
        parameters.remove(name);
        if parameters.is_empty() {
            plugin.remove("parameters");
        }
    }
}
