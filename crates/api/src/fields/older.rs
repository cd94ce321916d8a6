//! Fields of v1alpha1 that v1alpha2 does not have.

use serde_json::Value;

/// Leaves of the spec that v1alpha2 lacks. Adapters, which the schema leaves open, have the field too.
#[cfg(test)]
pub(super) const FIELDS: [&str; 1] = ["spec.model.criticality"];

/// What the writer of a v1alpha1 object should know about the fields that only this version has, beside what
/// [`super::warnings`] says about the object in v1alpha2.
pub fn v1alpha1_warnings(object: &Value) -> Vec<String> {
    let model = &object["spec"]["model"];
    let set = |model: &Value| model["criticality"].as_str().is_some_and(|text| !text.is_empty());
    let adapters = model["lora"]["adapters"].as_array();
    let own = set(model).then(|| "spec.model.criticality".to_owned());
    let of_adapters = adapters
        .into_iter()
        .flatten()
        .enumerate()
        .filter(|(_, adapter)| set(adapter))
        .map(|(i, _)| format!("spec.model.lora.adapters[{i}].criticality"));
    own.into_iter()
        .chain(of_adapters)
        .map(|path| {
            format!("{path} is deprecated and has no effect: it is kept for readers of v1alpha1 only")
        })
        .collect()
}
