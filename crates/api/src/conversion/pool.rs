//! The spec of an inline InferencePool. In `v1alpha1` it has the shape of the older InferencePool API.

use serde_json::{Value, json};

use super::fields::Fields;

/// The port of a picker that is a Service and has no port.
const PICKER_PORT: u16 = 9002;
/// The default `appProtocol` in the schema of a pool.
const DEFAULT_PROTOCOL: &str = "http";
const PICKER_KIND: &str = "Service";

/// Converts down. Returns the fields that the older shape lacks. A list of ports is kept as a whole, so that the conversion
/// up can check whether the port that both shapes have is unchanged.
pub(super) fn down(pool: &mut Fields) -> Fields {
    let mut kept = Fields::new();
    match pool.remove("selector") {
        Some(Value::Object(mut selector)) => {
            if let Some(labels) = selector.remove("matchLabels") {
                pool.insert("selector".to_owned(), labels);
            }
        }
        Some(wrong) => drop(pool.insert("selector".to_owned(), wrong)),
        None => {}
    }
    match pool.remove("targetPorts") {
        Some(Value::Array(ports)) => {
            if let Some(number) = first_number(&ports) {
                pool.insert("targetPortNumber".to_owned(), number.clone());
            }
            if ports.len() != 1 {
                kept.insert("targetPorts".to_owned(), Value::Array(ports));
            }
        }
        Some(Value::Null) | None => {}
        Some(wrong) => drop(pool.insert("targetPortNumber".to_owned(), wrong)),
    }
    match pool.remove("appProtocol") {
        Some(Value::String(protocol)) if protocol != DEFAULT_PROTOCOL => {
            kept.insert("appProtocol".to_owned(), Value::String(protocol));
        }
        _ => {}
    }
    if let Some(mut picker) = pool.remove("endpointPickerRef") {
        if let Value::Object(picker) = &mut picker {
            match picker.remove("port") {
                Some(Value::Object(mut port)) => {
                    if let Some(number) = port.remove("number") {
                        picker.insert("portNumber".to_owned(), number);
                    }
                }
                Some(Value::Null) | None => {
                    if needs_port(picker) {
                        kept.insert("endpointPickerRef".to_owned(), json!({"port": null}));
                    }
                }
                Some(wrong) => drop(picker.insert("portNumber".to_owned(), wrong)),
            }
        }
        pool.insert("extensionRef".to_owned(), picker);
    }
    kept
}

/// Converts up with the fields that the conversion down has kept.
pub(super) fn up(pool: &mut Fields, mut kept: Fields) {
    if let Some(labels) = pool.remove("selector") {
        pool.insert("selector".to_owned(), json!({"matchLabels": labels}));
    }
    let number = pool.remove("targetPortNumber").filter(|number| !number.is_null());
    match kept.remove("targetPorts") {
        // If somebody has changed the port, the kept ports are outdated.
        Some(Value::Array(ports)) if first_number(&ports) == number.as_ref() => {
            pool.insert("targetPorts".to_owned(), Value::Array(ports));
        }
        _ => {
            if let Some(number) = number {
                pool.insert("targetPorts".to_owned(), json!([{"number": number}]));
            }
        }
    }
    if let Some(mut picker) = pool.remove("extensionRef") {
        if let Value::Object(picker) = &mut picker {
            let without_port = kept.get("endpointPickerRef").is_some_and(|kept| kept["port"].is_null());
            newer_picker(picker, without_port);
        }
        pool.insert("endpointPickerRef".to_owned(), picker);
    }
    if !pool.is_empty() {
        let protocol = kept.remove("appProtocol").unwrap_or_else(|| DEFAULT_PROTOCOL.into());
        pool.entry("appProtocol").or_insert(protocol);
    }
}

fn newer_picker(picker: &mut Fields, without_port: bool) {
    let port = picker.remove("portNumber").filter(|number| !number.is_null() && *number != 0);
    for (key, default) in [("kind", PICKER_KIND), ("failureMode", "FailClose")] {
        let value = picker.entry(key).or_insert(Value::Null);
        if value.is_null() {
            *value = default.into();
        }
    }
    match port {
        Some(number) => drop(picker.insert("port".to_owned(), json!({"number": number}))),
        None if needs_port(picker) && !without_port => {
            picker.insert("port".to_owned(), json!({"number": PICKER_PORT}));
        }
        None => {}
    }
}

fn needs_port(picker: &Fields) -> bool {
    match picker.get("kind") {
        None | Some(Value::Null) => true,
        Some(kind) => kind == PICKER_KIND || kind == "",
    }
}

fn first_number(ports: &[Value]) -> Option<&Value> {
    ports.first()?.get("number").filter(|number| !number.is_null())
}
