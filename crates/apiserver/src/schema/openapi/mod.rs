//! OpenAPI v3: the index of group versions, and one document for each.
//!
//! Documents are large and rarely requested (by `kubectl explain`, `apply`, `create`). So the server builds each document on
//! the first request and caches its bytes by a hash. The hash covers the inputs of the document, so the index does not need
//! the documents. The documents contain what kubectl needs: the paths say which verbs exist and that `fieldValidation` is
//! supported, and the components describe the kinds.

mod built_in;
mod components;
mod custom;
mod paths;

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, LazyLock},
};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::kinds::{Origin, Registry, Resource};
use components::{LIST_META, kind_of, reference};

/// The most documents to cache: enough for a server with a few dozen definitions. Beyond that, older documents are built
/// again.
const MAX_CACHED_DOCUMENTS: usize = 128;

/// Documents by their hash. All servers of a process share the cache: equal hashes mean equal documents.
static DOCUMENTS: LazyLock<Mutex<HashMap<String, Bytes>>> = LazyLock::new(Mutex::default);

/// The index at `/openapi/v3`: each group version with the address of its document.
pub(crate) fn openapi_index(registry: &Registry) -> Value {
    let mut paths = Map::new();
    for (group, versions) in registry.groups() {
        for (version, resources) in versions {
            let path = path_of(&group, &version);
            let url = format!("/openapi/v3/{path}?hash={}", hash(&path, &resources));
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

/// Returns the document of `/openapi/v3/<path>` (`api/v1`, `apis/apps/v1`) as JSON, with the hash that the index contains (for the
/// `ETag`). Returns `None` if nothing is served there.
pub(crate) fn openapi_bytes(registry: &Registry, path: &str) -> Option<(String, Bytes)> {
    let (group, version, resources) = served(registry, path)?;
    let hash = hash(path, &resources);
    if let Some(bytes) = DOCUMENTS.lock().get(&hash) {
        return Some((hash, bytes.clone()));
    }
    let bytes = Bytes::from(document(&group, &version, &resources).to_string());
    let mut documents = DOCUMENTS.lock();
    if documents.len() >= MAX_CACHED_DOCUMENTS {
        documents.clear();
    }
    documents.insert(hash.clone(), bytes.clone());
    Some((hash, bytes))
}

fn path_of(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

fn served(registry: &Registry, path: &str) -> Option<(String, String, Vec<Arc<Resource>>)> {
    let mut parts = path.trim_matches('/').split('/');
    let (group, version) = match (parts.next()?, parts.next(), parts.next(), parts.next()) {
        ("api", Some(version), None, None) => ("", version),
        ("apis", Some(group), Some(version), None) => (group, version),
        _ => return None,
    };
    let resources = registry.groups().swap_remove(group)?.swap_remove(version)?;
    Some((group.to_owned(), version.to_owned(), resources))
}

/// Hashes everything from which the document is built.
fn hash(path: &str, resources: &[Arc<Resource>]) -> String {
    let mut hasher = DefaultHasher::new();
    env!("CARGO_PKG_VERSION").hash(&mut hasher);
    path.hash(&mut hasher);
    for resource in resources {
        resource.plural.hash(&mut hasher);
        resource.kind.hash(&mut hasher);
        if let Origin::Custom(custom) = &resource.origin {
            custom.stamp.hash(&mut hasher);
            (custom.status, custom.scale.is_some(), resource.namespaced).hash(&mut hasher);
        }
    }
    format!("{:016X}", hasher.finish())
}

fn document(group: &str, version: &str, resources: &[Arc<Resource>]) -> Value {
    let mut schemas = Map::new();
    let mut paths = Map::new();
    for resource in resources {
        let name = match &resource.origin {
            Origin::BuiltIn(_) => built_in::add(resource, &mut schemas),
            Origin::Custom(custom) => Some(custom::add(resource, custom, &mut schemas)),
        };
        if let Some(name) = name {
            list(resource, &name, &mut schemas);
            paths::add(resource, &name, &mut paths);
        }
    }
    built_in::add_meta(&mut schemas);
    let title = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    json!({
        "openapi": "3.0.0",
        "info": {"title": format!("Longboat: {title}"), "version": env!("CARGO_PKG_VERSION")},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

/// Adds the schema of the list kind.
fn list(resource: &Resource, name: &str, schemas: &mut Map<String, Value>) {
    if !resource.verbs.iter().any(|verb| verb == "list") {
        return;
    }
    let schema = json!({
        "description": format!("A list of {}.", resource.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"allOf": [reference(LIST_META)]},
            "items": {"type": "array", "items": {"allOf": [reference(name)]}},
        },
        "x-kubernetes-group-version-kind": [kind_of(resource, &resource.list_kind)],
    });
    schemas.insert(format!("{name}List"), schema);
}
