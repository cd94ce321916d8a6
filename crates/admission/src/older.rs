//! Checks that concern only `v1alpha1` objects.

use longboat_api::validation::{Cause, CauseKind, Report};
use serde_json::Value;

/// Common words for the criticality of a model, and the words of the API.
const CRITICALITIES: [(&str, &str); 3] = [("High", "Critical"), ("Medium", "Standard"), ("Low", "Sheddable")];

/// Replaces words from the API's documentation by the words of the API. Returns a warning for each.
pub(crate) fn name_criticalities(object: &mut Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(model) = object.pointer_mut("/spec/model") else { return warnings };
    name_criticality(model, "spec.model", &mut warnings);
    let adapters = model.pointer_mut("/lora/adapters").and_then(Value::as_array_mut);
    for (at, adapter) in adapters.into_iter().flatten().enumerate() {
        name_criticality(adapter, &format!("spec.model.lora.adapters[{at}]"), &mut warnings);
    }
    warnings
}

fn name_criticality(model: &mut Value, path: &str, warnings: &mut Vec<String>) {
    let Some(Value::String(text)) = model.get_mut("criticality") else { return };
    let Some((said, meant)) = CRITICALITIES.iter().find(|(said, _)| text == said) else { return };
    let [first, second, third] = CRITICALITIES.map(|(_, known)| known);
    warnings.push(format!(
        "{path}.criticality {said} is stored as {meant}: the values are {first}, {second} and {third}"
    ));
    (*meant).clone_into(text);
}

/// Refuses a pool without a picker. The v1alpha1 schema allows that, but the storage version needs a picker. The reference
/// adds a picker without a name, which the schema then refuses.
pub(crate) fn check(object: &Value, report: &mut Report) {
    let Some(pool) = object.pointer("/spec/router/scheduler/pool/spec").filter(|pool| pool.is_object())
    else {
        return;
    };
    if pool["extensionRef"].is_null() {
        report.errors.push(Cause {
            kind: CauseKind::Required,
            field: "spec.router.scheduler.pool.spec.extensionRef".to_owned(),
            value: Value::Null,
            detail: "a pool needs a Service of its picker".to_owned(),
        });
    }
}
