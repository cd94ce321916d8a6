//! Validation of environment variables and of their sources.

use super::selectors;
use crate::{
    Field,
    names::{self, NameRule},
};

const SOURCES: [&str; 5] = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];

/// Validates the environment of a container.
pub(super) fn validate(container: &Field<'_>) {
    for variable in container.items("env") {
        variable.at("name").not_empty("");
        variable_name(&variable.at("name"));
        if variable["valueFrom"].is_object() {
            value_from(&variable.at("valueFrom"), !variable.text("value").is_empty());
        }
    }
    for source in container.items("envFrom") {
        variable_name(&source.at("prefix"));
        let given = ["configMapRef", "secretRef"].into_iter().filter(|key| source[key].is_object());
        let given: Vec<&str> = given.collect();
        let refuse = |detail| container.at("envFrom").invalid_as("\"\"", detail);
        match given.as_slice() {
            [kind] => source.at(kind).at("name").required_name(NameRule::Subdomain),
            [] => refuse("must specify one of: `configMapRef` or `secretRef`"),
            _ => refuse("may not have more than one field specified at a time"),
        }
    }
}

fn value_from(source: &Field<'_>, has_value: bool) {
    let given: Vec<&str> = SOURCES.into_iter().filter(|key| source[key].is_object()).collect();
    for kind in &given {
        let reference = source.at(kind);
        match *kind {
            "fieldRef" => selectors::field(&reference, &selectors::ENVIRONMENT_FIELDS),
            "resourceFieldRef" => selectors::resource(&reference, false),
            "configMapKeyRef" | "secretKeyRef" => key_reference(&reference),
            _ => {}
        }
    }
    let refuse = |detail| source.invalid_as("\"\"", detail);
    match given.len() {
        0 => {
            refuse(
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
            );
        }
        _ if has_value => refuse("may not be specified when `value` is not empty"),
        1 => {}
        _ => refuse("may not have more than one field specified at a time"),
    }
}

fn variable_name(name: &Field<'_>) {
    if !name.as_text().chars().all(|c| (' '..='~').contains(&c) && c != '=') {
        name.invalid(
            "a valid environment variable name must consist only of printable ASCII characters other than '='",
        );
    }
}

fn key_reference(reference: &Field<'_>) {
    reference.text_at("name").name(NameRule::Subdomain);
    let key = reference.at("key");
    key.not_empty("");
    if let Some(problem) = names::config_key_problem(key.as_text()).filter(|_| !key.as_text().is_empty()) {
        key.invalid(problem);
    }
}
