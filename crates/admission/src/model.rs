//! Warnings about names and addresses of models that are accepted.

use longboat_api::{shell, v1alpha2::LLMInferenceServiceSpec};

/// The names that need no quotes.
const PLAIN: &str = "use letters, digits and any of _@%+=:,./-";

/// Returns the addresses of models and adapters from which nothing can be fetched: path of the field, and what is wrong.
pub fn unfetchable(spec: &LLMInferenceServiceSpec) -> Vec<(String, String)> {
    if !spec.storage_initializer_enabled() {
        return Vec::new();
    }
    let adapters = spec.model.lora.iter().flat_map(|lora| &lora.adapters).enumerate();
    let adapters =
        adapters.map(|(at, adapter)| (format!("spec.model.lora.adapters[{at}].uri"), &adapter.uri));
    let all = std::iter::once(("spec.model.uri".to_owned(), &spec.model.uri)).chain(adapters);
    // A template may become a valid address.
    let written = all.filter(|(_, uri)| !uri.as_str().contains("{{"));
    written
        .filter_map(|(path, uri)| {
            let problem = uri.address().problem()?;
            Some((path, format!("\"{uri}\" cannot be fetched: {problem}")))
        })
        .collect()
}

/// Returns warnings about the names and addresses in a spec.
pub(crate) fn warnings(spec: &LLMInferenceServiceSpec) -> Vec<String> {
    let mut all: Vec<String> =
        unfetchable(spec).into_iter().map(|(path, problem)| format!("{path} {problem}")).collect();
    let adapters = spec.model.lora.iter().flat_map(|lora| &lora.adapters).enumerate();
    let adapters =
        adapters.map(|(at, adapter)| (format!("spec.model.lora.adapters[{at}].name"), &adapter.name));
    let names = std::iter::once(("spec.model.name".to_owned(), &spec.model.name)).chain(adapters);
    for (path, name) in names.filter_map(|(path, name)| Some((path, name.as_deref()?))) {
        if name.starts_with('-') {
            all.push(format!("{path} {name:?} begins with \"-\": the model server takes it for a flag"));
        } else if !name.is_empty() && !name.contains("{{") && !shell::is_word(name) {
            all.push(format!(
                "{path} {name:?} is no single word for a shell: the presets of this release quote it, but other start \
                 scripts may split it, or run a part of it as a command; {PLAIN}"
            ));
        }
    }
    all
}
