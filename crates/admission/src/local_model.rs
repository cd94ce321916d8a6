//! Marks services whose model is cached on nodes.

use longboat_api::{annotations, labels};
use serde_json::{Map, Value, json};

use crate::{Facts, facts::ModelCache};

/// Marks the service with the cache that has its model, or removes the marks. Returns warnings.
///
/// Only the URI in the service itself counts, not one from a config. A service without a URI keeps its metadata.
pub(crate) fn apply(service: &mut Value, facts: &Facts) -> Vec<String> {
    let enabled = facts.platform.as_ref().is_ok_and(|platform| platform.local_model);
    if !enabled || annotation(service, annotations::DISABLE_LOCAL_MODEL).is_some() {
        remove_marks(service);
        return Vec::new();
    }
    let Some(caches) = &facts.local_models.caches else {
        remove_marks(service);
        return vec![
            "local models are enabled, but the kinds LocalModelCache and LocalModelNamespaceCache are not installed"
                .to_owned(),
        ];
    };
    let uri = service.pointer("/spec/model/uri").and_then(Value::as_str).unwrap_or_default();
    if uri.is_empty() {
        return Vec::new();
    }
    let namespace = service.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
    let group = annotation(service, annotations::NODE_GROUP);
    // Caches in the service's own namespace come first.
    let own = caches.iter().filter(|cache| cache.namespace.as_deref() == Some(namespace));
    let shared = caches.iter().filter(|cache| cache.namespace.is_none());
    let hit = own.chain(shared).find_map(|cache| Some((cache, claim(cache, uri, group)?)));
    match hit.map(|(cache, claim)| (cache.clone(), claim)) {
        Some((cache, claim)) => mark(service, &cache, &claim),
        None => remove_marks(service),
    }
    Vec::new()
}

/// The name of the volume claim of a cache for the node group. Returns `None` if the cache does not have the model there.
fn claim(cache: &ModelCache, uri: &str, group: Option<&str>) -> Option<String> {
    if !is_within(uri, &cache.source_model_uri) {
        return None;
    }
    let group = match group {
        Some(group) => cache.node_groups.iter().find(|name| *name == group)?,
        None => cache.node_groups.first()?,
    };
    Some(format!("{}-{group}", cache.name))
}

/// Whether a URI is that of a cached model, or of a path in it.
fn is_within(uri: &str, cached: &str) -> bool {
    let (uri, cached) = (uri.trim_end_matches('/'), cached.trim_end_matches('/'));
    uri.strip_prefix(cached).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn annotation<'a>(service: &'a Value, key: &str) -> Option<&'a str> {
    service.pointer("/metadata/annotations")?.get(key)?.as_str()
}

fn mark(service: &mut Value, cache: &ModelCache, claim: &str) {
    let Some(Value::Object(metadata)) = service.get_mut("metadata") else { return };
    if let Some(labels) = map(metadata, "labels") {
        labels.insert(labels::LOCAL_MODEL.to_owned(), json!(cache.name));
        match &cache.namespace {
            Some(namespace) => labels.insert(labels::LOCAL_MODEL_NAMESPACE.to_owned(), json!(**namespace)),
            None => labels.remove(labels::LOCAL_MODEL_NAMESPACE),
        };
    }
    if let Some(annotations) = map(metadata, "annotations") {
        annotations.insert(annotations::LOCAL_MODEL_SOURCE_URI.to_owned(), json!(cache.source_model_uri));
        annotations.insert(annotations::LOCAL_MODEL_PVC_NAME.to_owned(), json!(claim));
    }
}

fn remove_marks(service: &mut Value) {
    for (map, keys) in [
        ("labels", [labels::LOCAL_MODEL, labels::LOCAL_MODEL_NAMESPACE]),
        ("annotations", [annotations::LOCAL_MODEL_SOURCE_URI, annotations::LOCAL_MODEL_PVC_NAME]),
    ] {
        if let Some(Value::Object(map)) = service.get_mut("metadata").and_then(|m| m.get_mut(map)) {
            for key in keys {
                map.remove(key);
            }
        }
    }
}

/// Returns a map of the metadata. Creates it if it is missing.
fn map<'a>(metadata: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Map<String, Value>> {
    let map = metadata.entry(name).or_insert(Value::Null);
    if map.is_null() {
        *map = json!({});
    }
    map.as_object_mut()
}
