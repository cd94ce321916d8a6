//! ConfigMaps and Secrets.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{Strategy, names};
use crate::Cause;

/// The most bytes of data in one object.
const MAX_DATA_BYTES: usize = 1024 * 1024;

/// ConfigMaps and Secrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Config {
    /// A ConfigMap.
    Map,
    /// A Secret.
    Secret,
}

impl Strategy for Config {
    fn default(&self, value: &mut Value) {
        if *self == Self::Secret {
            encode(value);
        }
    }

    fn validate(&self, value: &Value, live: Option<&Value>) -> Vec<Cause> {
        validate(*self, value, live)
    }

    fn selectable(&self) -> &'static [&'static str] {
        match self {
            Self::Map => &[],
            Self::Secret => &["type"],
        }
    }

    fn metadata_validations(&self) -> usize {
        4
    }
}

/// Moves the plain texts of a Secret to its data.
fn encode(secret: &mut Value) {
    let plain = secret["stringData"].as_object().cloned().unwrap_or_default();
    if !plain.is_empty() && !secret["data"].is_object() {
        secret["data"] = json!({});
    }
    for (key, text) in plain {
        secret["data"][&key] = Value::from(STANDARD.encode(text.as_str().unwrap_or_default()));
    }
    if let Some(object) = secret.as_object_mut() {
        object.remove("stringData");
    }
}

fn validate(kind: Config, value: &Value, live: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut size = 0;
    for field in ["data", "binaryData"] {
        for (key, content) in value[field].as_object().into_iter().flatten() {
            let text = content.as_str().unwrap_or_default();
            size +=
                if field == "binaryData" || kind == Config::Secret { text.len() / 4 * 3 } else { text.len() };
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
    if size > MAX_DATA_BYTES {
        let field = if kind == Config::Secret { "data" } else { "[]" };
        causes.push(Cause::too_long(field, MAX_DATA_BYTES));
    }
    if kind == Config::Secret {
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
        if kind == Config::Secret && value["type"] != live["type"] {
            causes.push(Cause::invalid("type", &value["type"], "field is immutable"));
        }
    }
    causes
}
