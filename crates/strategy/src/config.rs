//! ConfigMaps and Secrets.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{Strategy, checks::IMMUTABLE, names};
use crate::Field;

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

    fn validate(&self, object: &Field<'_>, live: Option<&Value>) {
        let is_secret = *self == Self::Secret;
        let mut size = 0;
        for map in ["data", "binaryData"] {
            for (key, content) in object.entries(map) {
                let length = content.as_text().len();
                size += if map == "binaryData" || is_secret { length / 4 * 3 } else { length };
                if let Some(problem) = names::config_key_problem(key) {
                    content.invalid_as(Value::from(key), problem);
                }
                if map == "data" && object["binaryData"].get(key).is_some() {
                    content.invalid_as(Value::from(key), "duplicate of key present in binaryData");
                }
            }
        }
        if size > MAX_DATA_BYTES {
            object.at("data").named(if is_secret { "data" } else { "[]" }).too_long(MAX_DATA_BYTES);
        }
        if is_secret {
            let required: &[&str] = match object.text("type") {
                "kubernetes.io/tls" => &["tls.crt", "tls.key"],
                "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
                "kubernetes.io/dockercfg" => &[".dockercfg"],
                "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
                _ => &[],
            };
            for key in required.iter().filter(|key| object["data"].get(key).is_none()) {
                object.at("data").named(format!("data[{key}]")).required("");
            }
        }
        let Some(live) = live else { return };
        if live["immutable"] == true {
            let why = "field is immutable when `immutable` is set";
            if object["immutable"] != true {
                object.at("immutable").forbidden(why);
            }
            for field in ["data", "binaryData"].into_iter().filter(|field| object[*field] != live[*field]) {
                object.at(field).forbidden(why);
            }
        }
        if is_secret && object["type"] != live["type"] {
            object.at("type").invalid(IMMUTABLE);
        }
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
