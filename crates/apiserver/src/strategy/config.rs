//! ConfigMaps and Secrets.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{drop_empty, fill, names};
use crate::{kinds::Resource, status::Cause};

/// Most bytes of the data of one object.
const MOST: usize = 1024 * 1024;

/// Fills in a ConfigMap or Secret.
pub(super) fn default(resource: &Resource, value: &mut Value) {
    if resource.plural == "secrets" {
        fill(value, "type", "Opaque");
        let plain = value["stringData"].as_object().cloned().unwrap_or_default();
        if !plain.is_empty() && !value["data"].is_object() {
            value["data"] = json!({});
        }
        for (key, text) in plain {
            value["data"][&key] = Value::from(STANDARD.encode(text.as_str().unwrap_or_default()));
        }
        if let Some(object) = value.as_object_mut() {
            object.remove("stringData");
        }
    }
    drop_empty(value, &["data", "binaryData", "type"]);
    if resource.plural == "secrets" {
        fill(value, "type", "Opaque");
    }
}

/// Everything wrong with a ConfigMap or Secret.
pub(super) fn validate(resource: &Resource, value: &Value, live: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut size = 0;
    for field in ["data", "binaryData"] {
        for (key, content) in value[field].as_object().into_iter().flatten() {
            let text = content.as_str().unwrap_or_default();
            size += if field == "binaryData" || resource.plural == "secrets" {
                text.len() / 4 * 3
            } else {
                text.len()
            };
            let at = format!("{field}[{key}]");
            if let Some(problem) = names::config_key_problem(key) {
                causes.push(Cause::invalid(&at, &Value::from(key.as_str()), problem));
            }
            if field == "data" && value["binaryData"].get(key).is_some() {
                causes.push(Cause::invalid(
                    &at,
                    &Value::from(key.as_str()),
                    "duplicate of key present in binaryData",
                ));
            }
        }
    }
    if size > MOST {
        let field = if resource.plural == "secrets" { "data" } else { "[]" };
        causes.push(Cause::too_long(field, MOST));
    }
    if resource.plural == "secrets" {
        let required: &[&str] = match value["type"].as_str() {
            Some("kubernetes.io/tls") => &["tls.crt", "tls.key"],
            Some("kubernetes.io/dockerconfigjson") => &[".dockerconfigjson"],
            Some("kubernetes.io/dockercfg") => &[".dockercfg"],
            Some("kubernetes.io/ssh-auth") => &["ssh-privatekey"],
            _ => &[],
        };
        for key in required {
            if value["data"].get(key).is_none() {
                causes.push(Cause::required(format!("data[{key}]"), ""));
            }
        }
    }
    if let Some(live) = live {
        if live["immutable"] == true {
            let why = "field is immutable when `immutable` is set";
            if value["immutable"] != true {
                causes.push(Cause::forbidden("immutable", why));
            }
            for field in ["data", "binaryData"] {
                if value[field] != live[field] {
                    causes.push(Cause::forbidden(field, why));
                }
            }
        }
        if resource.plural == "secrets" && value["type"] != live["type"] {
            causes.push(Cause::invalid("type", &value["type"], "field is immutable"));
        }
    }
    causes
}
