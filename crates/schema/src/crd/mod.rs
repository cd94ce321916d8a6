//! CustomResourceDefinitions: defaulting, validation, accepted names.

mod names;
mod schema;
mod spec;

use serde_json::{Value, json};

pub use names::{names_status, terminating};
pub use spec::validate_crd;

/// Fills in the defaults of a CustomResourceDefinition, and records its storage version in `status.storedVersions`.
pub fn default_crd(crd: &mut Value) {
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let missing = |name: Option<&Value>| name.and_then(Value::as_str).is_none_or(str::is_empty);
        if missing(names.get("singular")) {
            names.insert("singular".to_owned(), kind.to_lowercase().into());
        }
        if missing(names.get("listKind")) && !kind.is_empty() {
            names.insert("listKind".to_owned(), format!("{kind}List").into());
        }
    }
    let conversion = spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
    if let Some(conversion) = conversion.as_object_mut() {
        conversion.entry("strategy").or_insert_with(|| "None".into());
        if let Some(Value::Object(service)) = conversion
            .get_mut("webhook")
            .and_then(|w| w.get_mut("clientConfig"))
            .and_then(|c| c.get_mut("service"))
        {
            service.entry("port").or_insert_with(|| 443.into());
        }
    }
    if spec.get("preserveUnknownFields") == Some(&Value::Bool(false)) {
        spec.remove("preserveUnknownFields");
    }
    let storage = spec
        .get("versions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .find(|version| version["storage"] == true)
        .and_then(|version| version["name"].as_str())
        .map(str::to_owned);
    let Some(root) = crd.as_object_mut() else { return };
    let status = root.entry("status").or_insert_with(|| json!({}));
    if !status.is_object() {
        *status = json!({});
    }
    let Some(status) = status.as_object_mut() else { return };
    status.entry("conditions").or_insert(Value::Null);
    status.entry("acceptedNames").or_insert_with(|| json!({"plural": "", "kind": ""}));
    let stored = status.entry("storedVersions").or_insert(Value::Null);
    if let Some(storage) = storage {
        match stored {
            Value::Array(stored) if stored.iter().any(|v| *v == storage) => {}
            Value::Array(stored) => stored.push(storage.into()),
            other => *other = json!([storage]),
        }
    }
}
