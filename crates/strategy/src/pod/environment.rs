//! Validation of environment variables and of their sources.

use serde_json::Value;

use super::selectors;
use crate::{
    Cause,
    checks::{items, name, text},
    names::{self, NameRule},
};

const SOURCES: [&str; 5] = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];

/// Validates the environment of a container.
pub(super) fn validate(container: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (index, variable) in items(container, "env").iter().enumerate() {
        let own = format!("{path}.env[{index}]");
        if text(variable, "name").is_empty() {
            causes.push(Cause::required(format!("{own}.name"), ""));
        }
        variable_name(&variable["name"], &format!("{own}.name"), causes);
        if variable["valueFrom"].is_object() {
            let has_value = !text(variable, "value").is_empty();
            value_from(&variable["valueFrom"], has_value, &format!("{own}.valueFrom"), causes);
        }
    }
    for (index, source) in items(container, "envFrom").iter().enumerate() {
        let own = format!("{path}.envFrom[{index}]");
        if !text(source, "prefix").is_empty() {
            variable_name(&source["prefix"], &format!("{own}.prefix"), causes);
        }
        let given: Vec<&str> =
            ["configMapRef", "secretRef"].into_iter().filter(|key| source[key].is_object()).collect();
        let mut refuse =
            |detail| causes.push(Cause::invalid(format!("{path}.envFrom"), &Value::from(""), detail));
        match given.as_slice() {
            [kind] => {
                if text(&source[*kind], "name").is_empty() {
                    causes.push(Cause::required(format!("{own}.{kind}.name"), ""));
                } else {
                    name(NameRule::Subdomain, &source[*kind]["name"], &format!("{own}.{kind}.name"), causes);
                }
            }
            [] => refuse("must specify one of: `configMapRef` or `secretRef`"),
            _ => refuse("may not have more than one field specified at a time"),
        }
    }
}

fn value_from(source: &Value, has_value: bool, path: &str, causes: &mut Vec<Cause>) {
    let given: Vec<&str> = SOURCES.into_iter().filter(|key| source[key].is_object()).collect();
    for kind in &given {
        let (own, reference) = (format!("{path}.{kind}"), &source[*kind]);
        match *kind {
            "fieldRef" => selectors::field(reference, &own, &selectors::ENVIRONMENT_FIELDS, causes),
            "resourceFieldRef" => selectors::resource(reference, &own, false, causes),
            "configMapKeyRef" | "secretKeyRef" => key_reference(reference, &own, causes),
            _ => {}
        }
    }
    let mut refuse = |detail| causes.push(Cause::invalid(path, &Value::from(""), detail));
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

fn variable_name(value: &Value, path: &str, causes: &mut Vec<Cause>) {
    let name = value.as_str().unwrap_or_default();
    if !name.is_empty() && !name.chars().all(|c| (' '..='~').contains(&c) && c != '=') {
        causes.push(Cause::invalid(
            path,
            value,
            "a valid environment variable name must consist only of printable ASCII characters other than '='",
        ));
    }
}

fn key_reference(reference: &Value, path: &str, causes: &mut Vec<Cause>) {
    name(NameRule::Subdomain, &Value::from(text(reference, "name")), &format!("{path}.name"), causes);
    let key = text(reference, "key");
    if key.is_empty() {
        causes.push(Cause::required(format!("{path}.key"), ""));
    } else if let Some(problem) = names::config_key_problem(key) {
        causes.push(Cause::invalid(format!("{path}.key"), &reference["key"], problem));
    }
}
