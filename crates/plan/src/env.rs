//! Environment variables of containers.

use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector};

/// A variable with this value.
pub(crate) fn literal(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.into(), value: Some(value.into()), value_from: None }
}

/// A variable with the value of a field of the pod.
pub(crate) fn field(name: &str, path: &str) -> EnvVar {
    let selector = ObjectFieldSelector { api_version: Some("v1".into()), field_path: path.into() };
    let source = EnvVarSource { field_ref: Some(selector), ..EnvVarSource::default() };
    EnvVar { name: name.into(), value: None, value_from: Some(source) }
}

/// Adds a variable, unless the container has one with this name.
pub(crate) fn add(container: &mut Container, variable: EnvVar) {
    let env = container.env.get_or_insert_default();
    if !env.iter().any(|present| present.name == variable.name) {
        env.push(variable);
    }
}

/// Adds a variable. If the container has one with this name, replaces only its literal value.
pub(crate) fn set(container: &mut Container, variable: EnvVar) {
    let env = container.env.get_or_insert_default();
    match env.iter_mut().find(|present| present.name == variable.name) {
        Some(present) => present.value = variable.value,
        None => env.push(variable),
    }
}
