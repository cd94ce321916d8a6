//! ConfigMaps and Secrets.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use longboat_schema::go_type;

use super::{Strategy, checks::IMMUTABLE, fields::json_error, names};
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
            typed_data(object);
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

/// Checks that a Secret has the data of its type.
fn typed_data(secret: &Field<'_>) {
    let entry = |key: &str| secret.at("data").named(format!("data[{key}]"));
    let value = |key: &str| secret["data"].get(key).and_then(Value::as_str);
    let require = |key: &str| entry(key).required("");
    match secret.text("type") {
        "kubernetes.io/tls" => {
            ["tls.crt", "tls.key"].into_iter().filter(|key| value(key).is_none()).for_each(require);
        }
        "kubernetes.io/ssh-auth" if value("ssh-privatekey").is_none_or(str::is_empty) => {
            require("ssh-privatekey");
        }
        "kubernetes.io/basic-auth" => {
            let keys = ["username", "password"];
            if keys.iter().all(|key| value(key).is_none()) {
                keys.into_iter().for_each(require);
            }
        }
        "kubernetes.io/service-account-token" => {
            const ACCOUNT: &str = "kubernetes.io/service-account.name";
            if secret["metadata"]["annotations"][ACCOUNT].as_str().is_none_or(str::is_empty) {
                secret.at("metadata").named(format!("metadata.annotations[{ACCOUNT}]")).required("");
            }
        }
        kind => {
            let keys = [".dockercfg", ".dockerconfigjson"];
            let Some(key) = keys.into_iter().find(|key| kind == format!("kubernetes.io/{}", &key[1..]))
            else {
                return;
            };
            match value(key) {
                None => require(key),
                Some(encoded) => {
                    if let Err(why) = json_object(&STANDARD.decode(encoded).unwrap_or_default()) {
                        entry(key).invalid_as("\"<secret contents redacted>\"", why);
                    }
                }
            }
        }
    }
}

/// Checks that a text is a JSON object, or null. Errors have the wording of Go's decoder.
fn json_object(text: &[u8]) -> Result<(), String> {
    let value: Value = serde_json::from_slice(text).map_err(|error| json_error(text, &error))?;
    if value.is_object() || value.is_null() {
        return Ok(());
    }
    let found = go_type(&value);
    Err(format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_has_the_data_of_its_type() {
        let causes = |kind: &str, data: Value| {
            let secret = json!({"metadata": {"name": "s"}, "type": kind, "data": data});
            let found = crate::causes_of(&secret, "", |secret| Config::Secret.validate(secret, None));
            found.into_iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect::<Vec<_>>()
        };
        let pulls = |text: &str| {
            causes("kubernetes.io/dockerconfigjson", json!({".dockerconfigjson": STANDARD.encode(text)}))
        };
        assert_eq!(pulls("{\"auths\": {}}"), [""; 0]);
        let redacted = "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\"";
        assert_eq!(
            pulls("no"),
            [format!("{redacted}: invalid character 'o' in literal null (expecting 'u')")]
        );
        assert_eq!(
            pulls("[]"),
            [format!(
                "{redacted}: json: cannot unmarshal array into Go value of type map[string]interface {{}}"
            )]
        );
        assert_eq!(causes("kubernetes.io/dockercfg", json!({})), ["data[.dockercfg]: Required value"]);
        assert_eq!(causes("kubernetes.io/basic-auth", json!({})).len(), 2);
        assert_eq!(causes("kubernetes.io/ssh-auth", json!({"ssh-privatekey": ""})).len(), 1);
        assert_eq!(causes("Opaque", json!({})), [""; 0]);
    }
}
