//! Warnings about names and addresses of models that are accepted.

use longboat_api::{shell, v1alpha2::LLMInferenceServiceSpec};

/// The names that need no quotes.
const PLAIN: &str = "use letters, digits and any of _@%+=:,./-";

/// Returns the addresses of models and adapters from which nothing can be fetched: path of the field, and what is wrong.
pub fn unfetchable(spec: &LLMInferenceServiceSpec) -> Vec<(String, String)> {
    if !spec.storage_initializer_enabled() {
        return Vec::new();
    }
    // A template may become a valid address.
    let written = spec.models().filter(|(_, model)| !model.uri.as_str().contains("{{"));
    written
        .filter_map(|(path, model)| {
            let problem = model.uri.address().problem()?;
            Some((format!("{path}.uri"), format!("\"{}\" cannot be fetched: {problem}", model.uri)))
        })
        .collect()
}

/// Returns warnings about the names and addresses in a spec.
pub(crate) fn warnings(spec: &LLMInferenceServiceSpec) -> Vec<String> {
    let mut all: Vec<String> =
        unfetchable(spec).into_iter().map(|(path, problem)| format!("{path} {problem}")).collect();
    for (path, name) in spec.models().filter_map(|(path, model)| Some((path, model.name.as_deref()?))) {
        if name.starts_with('-') {
            all.push(format!("{path}.name {name:?} begins with \"-\": the model server takes it for a flag"));
        } else if !name.is_empty() && !name.contains("{{") && !shell::is_word(name) {
            all.push(format!(
                "{path}.name {name:?} is no single word for a shell: the presets of this release quote it, but other start \
                 scripts may split it, or run a part of it as a command; {PLAIN}"
            ));
        }
    }
    all
}
