//! Marks services whose model, or whose LoRA adapters, are cached on nodes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::NodeSelectorTerm;
use longboat_api::{annotations, labels};
use serde_json::{Map, Value, json};

use crate::{Facts, facts::ModelCache};

const NOT_INSTALLED: &str =
    "local models are enabled, but the kinds LocalModelCache and LocalModelNamespaceCache are not installed";

/// Marks the service with the cache that has its model, or removes the marks. Returns warnings.
///
/// Only the URIs in the service itself count, not those from a config. A service without a URI keeps the marks of its model.
pub(crate) fn apply(service: &mut Value, facts: &Facts) -> Vec<String> {
    let is_enabled = facts.platform.as_ref().is_ok_and(|platform| platform.local_model)
        && annotation(service, annotations::DISABLE_LOCAL_MODEL).is_none();
    let Some(caches) = facts.local_models.caches.as_ref().filter(|_| is_enabled) else {
        remove_marks(service, &MODEL_MARKS);
        remove_marks(service, &ADAPTER_MARKS);
        return is_enabled.then(|| NOT_INSTALLED.to_owned()).into_iter().collect();
    };
    let lookup = Lookup::new(service, caches, &facts.local_models.node_groups);
    let uri = service.pointer("/spec/model/uri").and_then(Value::as_str).unwrap_or_default();
    // Both are looked up before the service changes.
    let (hit, adapters) = (lookup.of_model(uri), adapters(service, &lookup));
    match hit {
        Some((cache, claim)) => mark(service, cache, &claim),
        // A model that only a config names is none of admission's business.
        None if uri.is_empty() => {}
        None => remove_marks(service, &MODEL_MARKS),
    }
    match adapters {
        Some(adapters) => {
            let metadata = service.get_mut("metadata").and_then(Value::as_object_mut);
            if let Some(annotations) = metadata.and_then(|metadata| map(metadata, "annotations")) {
                annotations.insert(annotations::LOCAL_MODEL_LORA.to_owned(), json!(adapters));
            }
        }
        None => remove_marks(service, &ADAPTER_MARKS),
    }
    Vec::new()
}

/// The caches that a service may use.
struct Lookup<'a> {
    caches: Vec<&'a ModelCache>,
    node_groups: &'a BTreeMap<String, Vec<NodeSelectorTerm>>,
    /// The group that the service names.
    group: Option<String>,
    /// The labels of the nodes that the service selects.
    node_selector: BTreeMap<String, String>,
}

impl<'a> Lookup<'a> {
    /// Caches in the service's own namespace come first.
    fn new(
        service: &Value,
        caches: &'a [ModelCache],
        node_groups: &'a BTreeMap<String, Vec<NodeSelectorTerm>>,
    ) -> Self {
        let namespace = service.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
        let own = caches.iter().filter(|cache| cache.namespace.as_deref() == Some(namespace));
        let shared = caches.iter().filter(|cache| cache.namespace.is_none());
        let selector = service.pointer("/spec/template/nodeSelector").and_then(Value::as_object);
        let selector = selector.into_iter().flatten();
        Self {
            caches: own.chain(shared).collect(),
            node_groups,
            group: annotation(service, annotations::NODE_GROUP).map(ToOwned::to_owned),
            node_selector: selector
                .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                .collect(),
        }
    }

    /// The first cache that has a model on nodes for the service, and its volume claim there.
    fn of_model(&self, uri: &str) -> Option<(&'a ModelCache, String)> {
        let mut on_nodes = self.with(uri).filter(|cache| !cache.is_on_claim);
        on_nodes.find_map(|cache| Some((cache, format!("{}-{}", cache.name, self.node_group(cache)?))))
    }

    /// The first cache that has an adapter for the service: an entry of the annotation, and the claim on nodes. The entry has the
    /// form of KServe, which finds the users of a cache by it. The group of nodes is added if KServe would choose another one.
    fn of_adapter(&self, uri: &str) -> Option<(Value, Option<String>)> {
        self.with(uri).find_map(|cache| {
            let group = if cache.is_on_claim { None } else { Some(self.node_group(cache)?) };
            let mut entry = json!({"cache": cache.name});
            if let Some(namespace) = &cache.namespace {
                entry["namespace"] = json!(**namespace);
            }
            let default = self.group.as_ref().or_else(|| cache.node_groups.first());
            if group.is_some() && group != default {
                entry["nodeGroup"] = json!(group);
            }
            Some((entry, group.map(|group| format!("{}-{group}", cache.name))))
        })
    }

    /// The caches that have a URI.
    fn with(&self, uri: &str) -> impl Iterator<Item = &'a ModelCache> {
        let caches = self.caches.iter().filter(move |_| !uri.is_empty());
        caches.filter(move |cache| is_within(uri, &cache.source_model_uri)).copied()
    }

    /// The first group of nodes of a cache that the service can use.
    fn node_group(&self, cache: &'a ModelCache) -> Option<&'a String> {
        cache.node_groups.iter().find(|name| match &self.group {
            Some(group) => *name == group,
            None => self.fits(name),
        })
    }

    /// Whether a node of the group can have the labels that the service selects.
    fn fits(&self, group: &str) -> bool {
        let Some(terms) = self.node_groups.get(group) else { return true };
        terms.is_empty()
            || terms.iter().any(|term| {
                let requirements = term.match_expressions.iter().flatten();
                requirements.into_iter().all(|requirement| {
                    let values = requirement.values.as_deref().unwrap_or_default();
                    self.node_selector.get(&requirement.key).is_none_or(|label| {
                        match &*requirement.operator {
                            "In" => values.contains(label),
                            "NotIn" => !values.contains(label),
                            "DoesNotExist" => false,
                            // The numbers of the other operators are not compared: Kubernetes does that.
                            _ => true,
                        }
                    })
                })
            })
    }
}

/// Returns the caches of adapters as JSON, or `None` if no adapter is cached.
fn adapters(service: &Value, lookup: &Lookup) -> Option<String> {
    let adapters = service.pointer("/spec/model/lora/adapters").and_then(Value::as_array);
    let known = annotation(service, annotations::LOCAL_MODEL_LORA);
    let known: Value = known.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let mut found: BTreeMap<&str, Value> = BTreeMap::new();
    for adapter in adapters.into_iter().flatten() {
        let text = |key: &str| adapter[key].as_str().unwrap_or_default();
        let cached = lookup.of_adapter(text("uri")).filter(|_| !text("name").is_empty());
        if let Some((entry, claim)) = cached {
            let former = known.get(text("name")).filter(|former| is_former(former, &entry, claim.as_deref()));
            found.insert(text("name"), former.cloned().unwrap_or(entry));
        }
    }
    // Text keys cannot fail.
    (!found.is_empty()).then(|| serde_json::to_string(&found).unwrap_or_default())
}

/// Whether an entry that names its claim, as former versions wrote it, means the same as a new entry. It stays as it is: pods
/// have a copy of the annotation, and would restart for another text.
fn is_former(former: &Value, entry: &Value, claim: Option<&str>) -> bool {
    let written = former.get("claim").or_else(|| former.get("pvcName")).and_then(Value::as_str);
    written.is_some()
        && written == claim
        && ["cache", "namespace"].iter().all(|key| former.get(*key) == entry.get(*key))
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

/// The marks of a model: a map of the metadata, and a key.
const MODEL_MARKS: [(&str, &str); 4] = [
    ("labels", labels::LOCAL_MODEL),
    ("labels", labels::LOCAL_MODEL_NAMESPACE),
    ("annotations", annotations::LOCAL_MODEL_SOURCE_URI),
    ("annotations", annotations::LOCAL_MODEL_PVC_NAME),
];
/// The mark of adapters.
const ADAPTER_MARKS: [(&str, &str); 1] = [("annotations", annotations::LOCAL_MODEL_LORA)];

fn remove_marks(service: &mut Value, marks: &[(&str, &str)]) {
    for (map, key) in marks {
        if let Some(Value::Object(map)) = service.get_mut("metadata").and_then(|m| m.get_mut(*map)) {
            map.remove(*key);
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
