//! The forms of an object: as stored, and converted to the version of a request.

use std::sync::Arc;

use bytes::Bytes;
use longboat_schema::size;
use serde_json::{Value, json};

use crate::{
    kinds::{Custom, Origin, Resource, views},
    limits,
    state::State,
    status::ApiError,
    store::{StoredObject, fragment},
    webhook,
};

/// An object in the version of the request.
#[derive(Debug, Clone)]
pub(crate) enum RequestedObject {
    /// The stored object, unchanged.
    Stored(Arc<StoredObject>),
    /// A converted object, or one that is not stored.
    Other(Arc<Value>),
}

// === impl RequestedObject ===

impl RequestedObject {
    pub(crate) fn new(value: Value) -> Self {
        Self::Other(Arc::new(value))
    }

    pub(crate) fn value(&self) -> &Value {
        match self {
            Self::Stored(stored) => &stored.value,
            Self::Other(value) => value,
        }
    }

    /// Returns the object for one use. If it is text, what is parsed is freed with the copy, and of a list only one object is parsed
    /// at a time.
    pub(crate) fn for_reader(&self) -> Self {
        match self {
            Self::Stored(stored) => Self::Stored(stored.for_reader()),
            Self::Other(value) => Self::Other(Arc::clone(value)),
        }
    }

    /// Returns the length of the object as JSON.
    pub(crate) fn json_bytes(&self) -> usize {
        match self {
            Self::Stored(stored) => stored.json_bytes(),
            Self::Other(value) => size(value),
        }
    }

    /// Returns the object without its large parts.
    fn head(&self) -> &Value {
        match self {
            Self::Stored(stored) => stored.value.head(),
            Self::Other(value) => value,
        }
    }

    pub(crate) fn into_value(self) -> Value {
        match self {
            Self::Stored(stored) => stored.value.clone(),
            Self::Other(value) => Arc::unwrap_or_clone(value),
        }
    }

    fn fragment(&self) -> Bytes {
        match self {
            Self::Stored(stored) => stored.fragment(),
            Self::Other(value) => fragment(value),
        }
    }

    /// Appends the object as JSON, with kind and apiVersion.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let head = self.head();
        let kind = head["kind"].as_str().unwrap_or_default();
        let api_version = head["apiVersion"].as_str().unwrap_or_default();
        out.extend_from_slice(b"{\"kind\":");
        // names are strings, and strings can be written
        let _ = serde_json::to_writer(&mut *out, kind);
        out.extend_from_slice(b",\"apiVersion\":");
        let _ = serde_json::to_writer(&mut *out, api_version);
        let fragment = self.fragment();
        if !fragment.is_empty() {
            out.push(b',');
            out.extend_from_slice(&fragment);
        }
        out.push(b'}');
    }

    /// Appends the object as JSON without kind and apiVersion.
    pub(crate) fn write_bare(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        out.extend_from_slice(&self.fragment());
        out.push(b'}');
    }
}

/// Converts stored objects to the version of `resource`.
pub(crate) async fn show_all(
    state: &State,
    resource: &Resource,
    stored: Vec<Arc<StoredObject>>,
) -> Result<Vec<RequestedObject>, ApiError> {
    let Origin::Custom(custom) = &resource.origin else {
        return Ok(stored.into_iter().map(|s| show_built_in(resource, s)).collect());
    };
    let api_version = resource.api_version();
    // A tree takes many times the memory of its text. So the objects of a list are parsed and converted one after the other.
    let mut shown: Vec<Arc<StoredObject>> =
        stored.into_iter().map(|stored| with_defaults(custom, stored)).collect();
    let other: Vec<usize> = shown
        .iter()
        .enumerate()
        .filter(|(_, s)| s.value.head()["apiVersion"] != api_version.as_str())
        .map(|(index, _)| index)
        .collect();
    // A webhook gets all objects in one request, as from kube-apiserver.
    let at_once = if converts_by_webhook(state, resource) { other.len() } else { 1 };
    for part in other.chunks(at_once.max(1)) {
        let values = part.iter().map(|index| shown[*index].for_reader().value.clone()).collect();
        let converted = convert_custom(state, resource, values, &api_version).await?;
        for (index, value) in part.iter().zip(converted) {
            shown[*index] = shown[*index].converted(value);
        }
    }
    Ok(shown.into_iter().map(RequestedObject::Stored).collect())
}

/// Adds the defaults that the schema has gained since the object was written.
fn with_defaults(custom: &Custom, stored: Arc<StoredObject>) -> Arc<StoredObject> {
    if stored.has_defaults_of(custom.stamp) {
        return stored;
    }
    let read = stored.for_reader();
    let mut value = read.value.clone();
    if let Some(schema) = custom.schema_of(value["apiVersion"].as_str().unwrap_or_default()) {
        schema.prune_and_default(&mut value);
    }
    if value == *read.value {
        stored.mark_defaults_of(custom.stamp);
        return stored;
    }
    stored.converted(value)
}

/// Converts one stored object to the version of `resource`.
pub(crate) async fn show(
    state: &State,
    resource: &Resource,
    stored: Arc<StoredObject>,
) -> Result<RequestedObject, ApiError> {
    let mut shown = show_all(state, resource, vec![stored]).await?;
    shown.pop().ok_or_else(|| ApiError::internal("a conversion lost its object"))
}

/// Converts an object of a request to its storage version. Refuses it if its managed fields, or a converter, made it too large.
pub(crate) async fn to_storage(state: &State, resource: &Resource, value: Value) -> Result<Value, ApiError> {
    let stored = match &resource.origin {
        Origin::BuiltIn(_) => views::to_hub(resource, value),
        Origin::Custom(custom) if value["apiVersion"] == custom.stored.as_str() => value,
        Origin::Custom(custom) => {
            let target = custom.stored.clone();
            let mut converted = convert_custom(state, resource, vec![value], &target).await?;
            converted.pop().ok_or_else(|| ApiError::internal("a conversion lost its object"))?
        }
    };
    limits::refuse_large(&stored)?;
    Ok(stored)
}

fn show_built_in(resource: &Resource, stored: Arc<StoredObject>) -> RequestedObject {
    if views::is_hub(resource) {
        RequestedObject::Stored(stored)
    } else {
        RequestedObject::Stored(stored.converted(views::from_hub(resource, &stored.for_reader().value)))
    }
}

fn converts_by_webhook(state: &State, resource: &Resource) -> bool {
    resource.custom().is_some_and(|custom| custom.webhook.is_some())
        && state.registry.conversion_of(&resource.group).is_none()
}

/// Converts custom objects, which may be of different versions, to `target`.
pub(crate) async fn convert_custom(
    state: &State,
    resource: &Resource,
    mut values: Vec<Value>,
    target: &str,
) -> Result<Vec<Value>, ApiError> {
    let Some(custom) = resource.custom() else {
        return Ok(values);
    };
    let in_process = state.registry.conversion_of(&resource.group);
    match (in_process, &custom.webhook) {
        (Some(convert), _) => {
            for value in values.iter_mut().filter(|value| value["apiVersion"] != target) {
                convert(value, target).map_err(|why| {
                    ApiError::unexpected_error(format!("conversion to {target} failed: {why}"))
                })?;
            }
        }
        (None, None) => {
            for value in &mut values {
                value["apiVersion"] = Value::from(target);
            }
        }
        (None, Some(config)) => {
            values = webhook::convert(state, config, values, target).await?;
        }
    }
    // fields outside the schema that a converter adds are dropped; no defaults are filled in
    if let Some(schema) = custom.schema_of(target) {
        for value in &mut values {
            schema.prune(value);
        }
    }
    Ok(values)
}

/// Returns only the metadata of an object.
pub(crate) fn partial(object: &Value, version: &str) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": object["metadata"]})
}
