//! Rules for configs. The rendering of their templates is checked elsewhere, because it needs the composer.

use longboat_key::{Name, Namespace};
use serde_json::Value;

use super::{Report, runtime, scheduler};
use crate::names::preset;
use crate::v1alpha2::LLMInferenceServiceConfig;

/// Checks a config.
pub fn validate_config(config: &LLMInferenceServiceConfig) -> Report {
    let mut report = Report::default();
    if !config.spec.base_refs.is_empty() {
        report.forbidden(
            "spec.baseRefs",
            "baseRefs is not a permitted field in LLMInferenceServiceConfig, support for recursive refs has been \
             disabled",
        );
    }
    runtime::check_name(&config.spec, &mut report);
    if let Some(scheduler) = config.spec.scheduler() {
        scheduler::check_replicas(scheduler, &mut report);
    }
    report
}

/// Checks a changed config. A config that is being deleted is always accepted. Removing a value from a preset (a config
/// whose name starts with `prefix`) causes a warning.
pub fn validate_config_update(
    old: &LLMInferenceServiceConfig,
    new: &LLMInferenceServiceConfig,
    prefix: &str,
) -> Report {
    if new.metadata.deletion_timestamp.is_some() {
        return Report::default();
    }
    let mut report = validate_config(new);
    let (namespace, name) = place(new);
    let spec = |config: &LLMInferenceServiceConfig| serde_json::to_value(&config.spec).unwrap_or_default();
    if is_well_known(&name, prefix) && !is_derivable(&spec(old), &spec(new)) {
        report.warn(format!(
            "modifying well-known config {namespace}/{name} is not recommended. Consider creating a custom config \
             instead"
        ));
    }
    report
}

/// Returns why a config may not be deleted, or `None` if it may. Presets of the platform may not be deleted while `prevent`
/// is set.
pub fn validate_config_deletion(
    namespace: Namespace<&str>,
    name: Name<&str>,
    system_namespace: Namespace<&str>,
    prefix: &str,
    prevent: bool,
) -> Result<Report, String> {
    let mut report = Report::default();
    if is_well_known(&name, prefix) && namespace == system_namespace {
        let text = format!("well-known config {namespace}/{name} cannot be deleted");
        if prevent {
            return Err(text);
        }
        report
            .warn(format!("deleting well-known config {namespace}/{name}: services that need it will fail"));
    }
    Ok(report)
}

/// Whether a name is the name of a preset.
pub(crate) fn is_well_known(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|suffix| preset::shipped().any(|known| known == suffix))
}

fn place(config: &LLMInferenceServiceConfig) -> (Namespace<&str>, Name<&str>) {
    (Namespace::of(&config.metadata), Name::of(&config.metadata))
}

/// Whether `new` contains everything that `old` sets, with the same values. A list in `old` must be a prefix of the list in
/// `new`.
fn is_derivable(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Null, _) => true,
        // Empty counts as unset, as in apimachinery's `DeepDerivative`. Zero numbers and false do not.
        (Value::String(text), _) if text.is_empty() => true,
        (Value::Object(old), Value::Object(new)) => {
            old.iter().all(|(key, value)| is_derivable(value, new.get(key).unwrap_or(&Value::Null)))
        }
        (Value::Object(old), Value::Null) => old.is_empty(),
        (Value::Array(old), Value::Array(new)) => {
            old.len() <= new.len() && old.iter().zip(new).all(|(old, new)| is_derivable(old, new))
        }
        (Value::Array(old), Value::Null) => old.is_empty(),
        _ => old == new,
    }
}
