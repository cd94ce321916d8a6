//! Finds the field of a document that an error is about.

use serde_json::Value;

use crate::ConfigError;

/// Returns the path of the field that an error is about, such as `plugins[0].type`. Empty for the document as a whole.
///
/// Plugins and profiles are found by name, so the document may list them at other positions than the one that the error is about.
pub fn place(error: &ConfigError, document: &Value) -> String {
    match error {
        ConfigError::Syntax(_) => String::new(),
        ConfigError::Shape { path, .. }
        | ConfigError::TooMany { path, .. }
        | ConfigError::Unsupported { path, .. }
        | ConfigError::Misplaced { path, .. } => path.clone(),
        ConfigError::Kind { kind, .. } if kind == super::versions::KIND => "apiVersion".to_owned(),
        ConfigError::Kind { .. } => "kind".to_owned(),
        ConfigError::FeatureGate { from, .. } if from.starts_with('-') => String::new(),
        ConfigError::FeatureGate { from, index, .. } => format!("{from}[{index}]"),
        ConfigError::Types { missing, .. } => {
            let first = missing.first().map_or("", |missing| &missing.name);
            format!("{}.type", plugin(document, first))
        }
        ConfigError::Experimental { name, .. } => format!("{}.type", plugin(document, name)),
        ConfigError::DuplicatePlugin(name) => named(document, "plugins", name).last().unwrap_or_default(),
        ConfigError::Parameters { name, path, .. } => {
            let parameters = format!("{}.parameters", plugin(document, name));
            if path.is_empty() { parameters } else { format!("{parameters}.{path}") }
        }
        ConfigError::Reference { reference, .. } => use_of(document, reference),
        ConfigError::MissingProducer { name, .. }
        | ConfigError::ProfileHandlers(_, name)
        | ConfigError::MissingProfile { handler: name, .. } => plugin(document, name),
        ConfigError::SingleProfile(_) => "schedulingProfiles".to_owned(),
        ConfigError::DuplicateProfile(name) => {
            named(document, "schedulingProfiles", name).last().unwrap_or_default()
        }
        ConfigError::Pickers(name) => named(document, "schedulingProfiles", name).next().unwrap_or_default(),
        ConfigError::Weight { profile, plugin, .. } => {
            let profile = named(document, "schedulingProfiles", profile).next().unwrap_or_default();
            let uses = &document.pointer(&pointer(&profile)).unwrap_or(&Value::Null)["plugins"];
            let at =
                uses.as_array().into_iter().flatten().position(|one| one["pluginRef"] == plugin.as_str());
            at.map_or_else(|| profile.clone(), |at| format!("{profile}.plugins[{at}].weight"))
        }
    }
}

/// The paths of the entries of a list with that name. The name of a plugin is its type if it has none.
fn named<'a>(document: &'a Value, list: &'a str, name: &'a str) -> impl Iterator<Item = String> + 'a {
    let entries = document[list].as_array().into_iter().flatten().enumerate();
    entries.filter(move |(_, entry)| name_of(entry) == Some(name)).map(move |(at, _)| format!("{list}[{at}]"))
}

/// The name of a plugin, which is its type if it has none.
pub(super) fn name_of(plugin: &Value) -> Option<&str> {
    plugin["name"].as_str().filter(|name| !name.is_empty()).or_else(|| plugin["type"].as_str())
}

fn plugin(document: &Value, name: &str) -> String {
    named(document, "plugins", name).next().unwrap_or_else(|| "plugins".to_owned())
}

/// The path of the first field that refers to a plugin by this name. Empty if there is none.
fn use_of(document: &Value, reference: &str) -> String {
    // The declarations of plugins come last, because a parameter may have the same value by chance.
    let (plugins, rest) = match document.as_object() {
        Some(fields) => fields.iter().partition(|(name, _)| *name == "plugins"),
        None => (Vec::new(), Vec::new()),
    };
    let found = |(name, value): &(&String, &Value)| find(value, (*name).clone(), reference);
    rest.iter().find_map(found).or_else(|| plugins.iter().find_map(found)).unwrap_or_default()
}

fn find(value: &Value, path: String, wanted: &str) -> Option<String> {
    match value {
        Value::String(text) => (text == wanted).then_some(path),
        Value::Array(items) => {
            items.iter().enumerate().find_map(|(at, item)| find(item, format!("{path}[{at}]"), wanted))
        }
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| !["name", "type"].contains(&name.as_str()))
            .find_map(|(name, field)| find(field, format!("{path}.{name}"), wanted)),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// The JSON pointer of a path such as `plugins[0].type`.
pub(super) fn pointer(path: &str) -> String {
    format!("/{}", path.replace(['.', '['], "/").replace(']', ""))
}
