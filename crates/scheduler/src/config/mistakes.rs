//! All mistakes of a document that do not follow from one another.

use serde_json::Value;

use super::{
    load,
    place::{name_of, place, pointer},
};
use crate::{ConfigError, Options};

/// The most mistakes that are looked for: each is a load.
const MAX_MISTAKES: usize = 16;

/// Returns why a picker does not start with a text: the error of [`load`], then those that it would have after each is mended. To mend
/// a mistake, the part with it is taken out.
pub fn mistakes(text: &str, gates: &[String], options: Options) -> Vec<ConfigError> {
    let mut all = Vec::new();
    let Err(first) = load(text, gates, options) else { return all };
    let mut document = serde_saphyr::from_str::<Value>(text).unwrap_or_default();
    let mut next = Some(first);
    while let Some(error) = next.take() {
        let is_mended = all.len() + 1 < MAX_MISTAKES && take_out(&mut document, &error);
        all.push(error);
        if is_mended {
            let error = load(&document.to_string(), gates, options).err();
            // What else is wrong may only be wrong because of what was taken out.
            next =
                error.filter(|error| stands_alone(error) && !all.iter().any(|known| is_same(known, error)));
        }
    }
    all
}

/// Whether an error is about one part, so that it does not follow from the lack of another.
fn stands_alone(error: &ConfigError) -> bool {
    matches!(
        error,
        ConfigError::Shape { .. }
            | ConfigError::Types { .. }
            | ConfigError::Parameters { .. }
            | ConfigError::Reference { .. }
            | ConfigError::Weight { .. }
    )
}

/// Whether two errors are about one part: a parameter that was taken out may be needed.
fn is_same(one: &ConfigError, other: &ConfigError) -> bool {
    match (one, other) {
        // An object that lacks a field after its unknown ones were taken out.
        (ConfigError::Shape { path: one, .. }, ConfigError::Shape { path: other, .. }) => {
            one.starts_with(other)
        }
        (
            ConfigError::Parameters { name: one, path: at, .. },
            ConfigError::Parameters { name: other, path: of, .. },
        ) => one == other && (at == of || at.is_empty() || of.is_empty()),
        (ConfigError::Types { missing, .. }, ConfigError::Reference { reference, .. }) => {
            missing.iter().any(|missing| missing.may_be(reference))
        }
        (one, other) => one.to_string() == other.to_string(),
    }
}

/// Takes out the part of a document that an error is about. Returns whether there is such a part.
fn take_out(document: &mut Value, error: &ConfigError) -> bool {
    match error {
        ConfigError::Types { missing, .. } => {
            let Some(plugins) = document.get_mut("plugins").and_then(Value::as_array_mut) else {
                return false;
            };
            let before = plugins.len();
            let is_missing = |name: &str| missing.iter().any(|missing| missing.name == name);
            plugins.retain(|plugin| !name_of(plugin).is_some_and(is_missing));
            let is_less = plugins.len() < before;
            let declared: Vec<String> = plugins.iter().filter_map(name_of).map(str::to_owned).collect();
            // A profile may have the name that the misspelt plugin should have.
            let is_meant = |name: &str| missing.iter().any(|missing| missing.may_be(name));
            forget(document, &|name| is_meant(name) && !declared.iter().any(|declared| declared == name));
            is_less
        }
        ConfigError::Reference { reference, .. } => forget(document, &|name| name == reference),
        ConfigError::Shape { .. } | ConfigError::Parameters { .. } | ConfigError::Weight { .. } => {
            remove(document, &place(error, document))
        }
        _ => false,
    }
}

/// Removes the references of profiles and parsers to plugins of these names. Returns whether there was one.
fn forget(document: &mut Value, is_gone: &dyn Fn(&str) -> bool) -> bool {
    let mut lists: Vec<&mut Value> = Vec::new();
    if let Some(fields) = document.as_object_mut() {
        for (name, field) in fields {
            match name.as_str() {
                "schedulingProfiles" => {
                    lists.extend(
                        field.as_array_mut().into_iter().flatten().filter_map(|one| one.get_mut("plugins")),
                    );
                }
                "requestHandler" => lists.extend(field.get_mut("parsers")),
                _ => {}
            }
        }
    }
    let mut is_less = false;
    for list in lists.into_iter().filter_map(Value::as_array_mut) {
        let before = list.len();
        list.retain(|entry| !entry["pluginRef"].as_str().is_some_and(is_gone));
        is_less |= list.len() < before;
    }
    is_less
}

/// Removes a field. Elements of lists stay, because the positions of the others would change.
fn remove(document: &mut Value, path: &str) -> bool {
    let pointer = pointer(path);
    let Some((parent, field)) = pointer.rsplit_once('/') else { return false };
    let parent = document.pointer_mut(parent).and_then(Value::as_object_mut);
    parent.is_some_and(|parent| parent.remove(field).is_some())
}

#[cfg(test)]
mod tests {
    use super::mistakes;
    use crate::Options;

    fn messages(text: &str) -> Vec<String> {
        let text = format!("apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\n{text}");
        mistakes(&text, &[], Options::default()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn independent_mistakes_are_found_at_once() {
        let found = messages(
            "pluginz: []\nplugins:\n- {type: queue-scorer, parameters: {a: 1}}\n- {type: kv-cash}\n- {type: prefix-cache-scorer, parameters: {b: 2}}\n\
             schedulingProfiles:\n- name: default\n  plugins:\n  - {pluginRef: kv-cash}\n  - {pluginRef: quue-scorer}\n  - {pluginRef: nobody}\n",
        );
        let about = ["pluginz", "kv-cash", "queue-scorer", "prefix-cache-scorer", "quue-scorer", "nobody"];
        assert_eq!(found.len(), about.len(), "{found:#?}");
        for name in about {
            assert!(
                found
                    .iter()
                    .any(|message| message.contains(&format!("\"{name}\"")) || message.contains(name)),
                "{name}: {found:#?}"
            );
        }
    }

    #[test]
    fn what_follows_from_another_mistake_is_not_said() {
        // Without its unknown plugin, nothing is left of the profile.
        let found = messages(
            "plugins: [{type: kv-cash}]\nschedulingProfiles: [{name: default, plugins: [{pluginRef: kv-cash}]}]\n",
        );
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(messages("plugins: [{type: queue-scorer}]\n"), [""; 0]);
        assert_eq!(messages("plugins: [").len(), 1);
    }
}
