//! Discovery: API groups, versions and resources, in the old and in the aggregated form.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::kinds::{Registry, Resource};

/// A subresource: name, kind, group and version of another API if it has one, verbs.
struct Subresource {
    name: &'static str,
    kind: Option<&'static str>,
    api: Option<(&'static str, &'static str)>,
    verbs: &'static [&'static str],
}

const CHANGE: &[&str] = &["get", "patch", "update"];
const CONNECT: &[&str] = &["create", "get"];
const CREATE: &[&str] = &["create"];

const SUBRESOURCES: &[Subresource] = &[
    Subresource { name: "attach", kind: Some("PodAttachOptions"), api: None, verbs: CONNECT },
    Subresource { name: "binding", kind: Some("Binding"), api: None, verbs: CREATE },
    Subresource { name: "ephemeralcontainers", kind: None, api: None, verbs: CHANGE },
    Subresource { name: "eviction", kind: Some("Eviction"), api: Some(("policy", "v1")), verbs: CREATE },
    Subresource { name: "exec", kind: Some("PodExecOptions"), api: None, verbs: CONNECT },
    Subresource { name: "finalize", kind: None, api: None, verbs: &["update"] },
    Subresource { name: "log", kind: None, api: None, verbs: &["get"] },
    Subresource { name: "portforward", kind: Some("PodPortForwardOptions"), api: None, verbs: CONNECT },
    Subresource {
        name: "proxy",
        kind: None,
        api: None,
        verbs: &["create", "delete", "get", "patch", "update"],
    },
    Subresource { name: "resize", kind: None, api: None, verbs: CHANGE },
    Subresource { name: "scale", kind: Some("Scale"), api: Some(("autoscaling", "v1")), verbs: CHANGE },
    Subresource { name: "status", kind: None, api: None, verbs: CHANGE },
    Subresource {
        name: "token",
        kind: Some("TokenRequest"),
        api: Some(("authentication.k8s.io", "v1")),
        verbs: CREATE,
    },
];

/// Verbs of custom resources, in the order in which kube-apiserver lists them.
const CUSTOM_VERBS: &[&str] =
    &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// The document at `/api`.
pub(crate) fn core_versions() -> Value {
    json!({"kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}]})
}

/// The document at `/apis`.
pub(crate) fn groups(registry: &Registry) -> Value {
    let groups: Vec<Value> = registry
        .groups()
        .iter()
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, versions)| {
            let mut group = group_of(name, versions.keys());
            if let Some(fields) = group.as_object_mut() {
                fields.remove("kind");
                fields.remove("apiVersion");
            }
            group
        })
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// The document at `/apis/<group>`.
pub(crate) fn group(registry: &Registry, name: &str) -> Option<Value> {
    let groups = registry.groups();
    let versions = groups.get(name)?;
    Some(group_of(name, versions.keys()))
}

fn group_of<'a>(name: &str, versions: impl Iterator<Item = &'a String>) -> Value {
    let versions: Vec<Value> = versions
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    json!({"kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": versions,
        "preferredVersion": versions.first()})
}

/// The document at `/apis/<group>/<version>` or `/api/v1`.
pub(crate) fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let groups = registry.groups();
    let served = groups.get(group)?.get(version)?;
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut list = Vec::new();
    for resource in served {
        let mut entry = json!({
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": verbs(resource),
        });
        add_aliases(&mut entry, resource);
        if resource.verbs.iter().any(|v| v == "list") {
            entry["storageVersionHash"] = Value::from(storage_hash(resource));
        }
        list.push(entry);
        for sub in subresources(resource) {
            let mut entry = json!({
                "name": format!("{}/{}", resource.plural, sub.name),
                "singularName": "",
                "namespaced": resource.namespaced,
                "kind": kind_of(resource, sub),
                "verbs": sub.verbs,
            });
            if let Some((group, version)) = sub.api {
                entry["group"] = Value::from(group);
                entry["version"] = Value::from(version);
            }
            list.push(entry);
        }
    }
    let mut answer = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": list});
    if !group.is_empty() {
        answer["apiVersion"] = Value::from("v1");
    }
    Some(answer)
}

/// The document at `/api` (if `core`) or `/apis` in the aggregated form.
pub(crate) fn aggregated(registry: &Registry, core: bool) -> Value {
    let items: Vec<Value> = registry
        .groups()
        .iter()
        .filter(|(name, _)| name.is_empty() == core)
        .map(|(name, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|(version, resources)| {
                    let resources: Vec<Value> = resources.iter().map(|r| aggregated_resource(r)).collect();
                    json!({"version": version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            let metadata = if name.is_empty() { json!({}) } else { json!({"name": name}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn aggregated_resource(resource: &Resource) -> Value {
    let kind =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let own = |name: &str| {
        if resource.custom().is_some() {
            kind(&resource.group, &resource.version, name)
        } else {
            kind("", "", name)
        }
    };
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": own(&resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": verbs(resource),
    });
    add_aliases(&mut entry, resource);
    let mut subs: Vec<Value> = subresources(resource)
        .map(|sub| {
            let name = kind_of(resource, sub);
            let response = match sub.api {
                Some((group, version)) => kind(group, version, &name),
                None => own(&name),
            };
            json!({"subresource": sub.name, "responseKind": response, "verbs": sub.verbs})
        })
        .collect();
    if resource.custom().is_some() {
        // status before scale for custom resources
        subs.reverse();
    }
    if !subs.is_empty() {
        entry["subresources"] = Value::Array(subs);
    }
    entry
}

/// Adds the short names and categories. Both forms leave empty lists out.
fn add_aliases(entry: &mut Value, resource: &Resource) {
    for (key, names) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
        if !names.is_empty() {
            entry[key] = Value::from(names.clone());
        }
    }
}

fn verbs(resource: &Resource) -> Value {
    if resource.custom().is_some() {
        Value::from(CUSTOM_VERBS.to_vec())
    } else {
        Value::from(resource.verbs.clone())
    }
}

fn subresources(resource: &Resource) -> impl Iterator<Item = &'static Subresource> {
    let names: Vec<&'static str> = match resource.built_in() {
        Some(row) => row.subresources.to_vec(),
        None => [("scale", resource.has_scale()), ("status", resource.has_status())]
            .into_iter()
            .filter_map(|(name, there)| there.then_some(name))
            .collect(),
    };
    SUBRESOURCES.iter().filter(move |sub| names.contains(&sub.name))
}

fn kind_of(resource: &Resource, sub: &Subresource) -> String {
    match (sub.kind, sub.name, resource.plural.as_str()) {
        (Some(kind), _, _) => kind.to_owned(),
        (None, "proxy", _) => format!("{}ProxyOptions", resource.kind),
        _ => resource.kind.clone(),
    }
}

/// Returns the hash by which clients notice a change of the storage version.
fn storage_hash(resource: &Resource) -> String {
    let version = match resource.custom() {
        Some(custom) => custom.stored.rsplit('/').next().unwrap_or_default().to_owned(),
        None => match (resource.group.as_str(), resource.plural.as_str()) {
            ("autoscaling", _) => "v2".to_owned(),
            _ => resource.version.clone(),
        },
    };
    let group = match (resource.group.as_str(), resource.plural.as_str()) {
        ("events.k8s.io", "events") => "",
        (group, _) => group,
    };
    let text = format!("{group}/{version}/{}", resource.kind);
    STANDARD.encode(&Sha256::digest(text.as_bytes())[..8])
}
