//! Reads and writes `metadata.managedFields`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::fields::Set;

/// The identity of an entry in `managedFields`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Manager {
    pub(super) name: String,
    /// `Apply` or `Update`.
    pub(super) operation: String,
    /// Set only for updates: a manager has a single apply entry for all versions.
    pub(super) api_version: String,
    pub(super) subresource: String,
    /// The time, if it is part of the identity. It is never part of it in entries, but in conflicts it is.
    pub(super) time: Option<String>,
}

/// The fields that a manager owns.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OwnedFields {
    pub(super) set: Set,
    /// The API version to which the paths refer.
    pub(super) api_version: String,
    pub(super) applied: bool,
    pub(super) time: Option<String>,
}

/// All managers and their fields.
pub(super) type Ownership = BTreeMap<Manager, OwnedFields>;

/// Whether a list of managed fields requests a reset: it is empty, or has one empty entry.
pub(super) fn is_reset(managed_fields: Option<&Value>) -> bool {
    match managed_fields.and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => true,
        Some([only]) => only.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

/// Parses the entries of an object. The error names the invalid entry.
pub(super) fn decode(object: &Value) -> Result<Ownership, String> {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let mut owners = Ownership::new();
    for (index, entry) in entries.into_iter().flatten().enumerate() {
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        let operation = text("operation");
        if !matches!(operation.as_str(), "Apply" | "Update") {
            return Err("operation must be `Apply` or `Update`".to_owned());
        }
        let api_version = text("apiVersion");
        if api_version.is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        match text("fieldsType").as_str() {
            "FieldsV1" => {}
            "" => return Err(format!("missing fieldsType in managed fields entry {index}")),
            other => return Err(format!("invalid fieldsType \"{other}\" in managed fields entry {index}")),
        }
        let set = match &entry["fieldsV1"] {
            Value::Null => Set::default(),
            fields => Set::from_fields_v1(fields).map_err(|error| format!("error decoding set: {error}"))?,
        };
        let applied = operation == "Apply";
        let manager = Manager {
            name: text("manager"),
            operation,
            api_version: if applied { String::new() } else { api_version.clone() },
            subresource: text("subresource"),
            time: None,
        };
        let time = entry["time"].as_str().map(str::to_owned);
        owners.insert(manager, OwnedFields { set, api_version, applied, time });
    }
    Ok(owners)
}

/// Writes the entries into an object, sorted: applies first, then by time, then by name.
pub(super) fn encode(object: &mut Value, owners: &Ownership) {
    let Some(map) = object.as_object_mut() else { return };
    if owners.is_empty() {
        if let Some(Value::Object(metadata)) = map.get_mut("metadata") {
            metadata.remove("managedFields");
        }
        return;
    }
    let mut entries: Vec<(&Manager, &OwnedFields)> = owners.iter().collect();
    entries.sort_by_key(|(manager, owned)| {
        (
            manager.operation.as_str(),
            owned.time.as_deref().unwrap_or_default(),
            manager.name.as_str(),
            owned.api_version.as_str(),
            manager.subresource.as_str(),
        )
    });
    let list: Vec<Value> = entries.into_iter().map(|(manager, owned)| entry(manager, owned)).collect();
    let metadata = map.entry("metadata").or_insert_with(|| json!({}));
    if let Value::Object(metadata) = metadata {
        metadata.insert("managedFields".to_owned(), Value::Array(list));
    }
}

fn entry(manager: &Manager, owned: &OwnedFields) -> Value {
    let mut entry = Map::new();
    if !manager.name.is_empty() {
        entry.insert("manager".to_owned(), json!(manager.name));
    }
    entry.insert("operation".to_owned(), json!(manager.operation));
    entry.insert("apiVersion".to_owned(), json!(owned.api_version));
    if let Some(time) = &owned.time {
        entry.insert("time".to_owned(), json!(time));
    }
    entry.insert("fieldsType".to_owned(), json!("FieldsV1"));
    entry.insert("fieldsV1".to_owned(), owned.set.to_fields_v1());
    if !manager.subresource.is_empty() {
        entry.insert("subresource".to_owned(), json!(manager.subresource));
    }
    Value::Object(entry)
}

/// The object without its `managedFields`.
pub fn without_entries(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
    object
}
