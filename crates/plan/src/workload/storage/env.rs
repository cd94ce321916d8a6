//! Environment variables of containers.

use k8s_openapi::api::core::v1::{Container, EnvVar};

/// A variable with this value.
pub(super) fn literal(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.into(), value: Some(value.into()), value_from: None }
}

/// Adds a variable, unless the container has one with this name.
pub(super) fn add_env(container: &mut Container, name: &str, value: &str) {
    let env = container.env.get_or_insert_default();
    if !env.iter().any(|variable| variable.name == name) {
        env.push(literal(name, value));
    }
}
