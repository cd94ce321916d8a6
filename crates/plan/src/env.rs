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

/// Adds a variable, or replaces a literal value. If the user takes the variable from an object, that stays.
pub(crate) fn set(container: &mut Container, variable: EnvVar) {
    let env = container.env.get_or_insert_default();
    match env.iter_mut().find(|present| present.name == variable.name) {
        // An API server refuses a variable with both a value and a source.
        Some(present) if present.value_from.is_some() => {}
        Some(present) => *present = variable,
        None => env.push(variable),
    }
}

#[cfg(test)]
mod tests {
    use super::{add, field, literal, set};
    use k8s_openapi::api::core::v1::Container;

    #[test]
    fn a_literal_is_replaced_as_a_whole_and_a_source_of_the_user_stays() {
        let mut container = Container::default();
        add(&mut container, literal("TOKEN", "old"));
        set(&mut container, field("TOKEN", "metadata.name"));
        assert_eq!(container.env.as_deref(), Some(&[field("TOKEN", "metadata.name")][..]));
        set(&mut container, literal("TOKEN", "new"));
        assert_eq!(container.env.as_deref(), Some(&[field("TOKEN", "metadata.name")][..]));
        set(&mut container, literal("OTHER", "1"));
        set(&mut container, literal("OTHER", "2"));
        assert_eq!(container.env.unwrap()[1], literal("OTHER", "2"));
    }
}
