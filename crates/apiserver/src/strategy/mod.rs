//! What a plain server does with the built-in kinds: defaults, what it sets itself, what it refuses.
//!
//! One file per kind or family; a kind without a file has metadata rules only.

mod apps;
mod autoscaling;
mod batch;
mod checks;
mod config;
mod devices;
mod exposure;
mod metadata;
mod misc;
pub(crate) mod names;
mod networking;
pub(crate) mod pod;
mod policy;
mod quantity;
mod rbac;
pub(crate) mod service;
mod slices;
mod storage;

use serde_json::{Map, Value, json};

use self::names::NameRule;
pub(crate) use self::quantity::Quantity;
use crate::{
    kinds::{Resource, builtin::BuiltIn},
    server::State,
    status::{ApiError, Cause},
};

/// Fills in the defaults of a built-in kind, in the form that the reference would write the object.
pub(crate) fn default(resource: &Resource, value: &mut Value) {
    drop_nulls(value);
    if !value["metadata"].is_object() {
        value["metadata"] = json!({});
    }
    metadata::tidy(&mut value["metadata"]);
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => pod::default(value),
        ("", "services") => service::default(value),
        ("", "configmaps" | "secrets") => config::default(resource, value),
        ("apps", _) => apps::default(resource, value),
        ("batch", _) => batch::default(resource, value),
        ("resource.k8s.io", _) => devices::default(resource, value),
        _ => misc::default(resource, value),
    }
    if resource.group != "apiextensions.k8s.io" && resource.plural != "controllerrevisions" {
        tidy_selectors(value);
    }
    quantity::canonicalise(value);
}

/// Typed label selectors do not write what is empty.
fn tidy_selectors(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, value| {
                let is_part = matches!(key.as_str(), "matchLabels" | "matchExpressions");
                let is_empty = value.as_object().is_some_and(Map::is_empty)
                    || value.as_array().is_some_and(Vec::is_empty);
                !(is_part && is_empty)
            });
            map.values_mut().for_each(tidy_selectors);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy_selectors),
        _ => {}
    }
}

/// What the server says in a new object: no status from outside, generation 1.
pub(crate) fn prepare_create(resource: &Resource, value: &mut Value) {
    if resource.has_status()
        && let Some(object) = value.as_object_mut()
    {
        object.remove("status");
    }
    if keeps_generation(resource) || resource.custom().is_some() {
        value["metadata"]["generation"] = Value::from(1);
    }
    if resource.custom().is_some() {
        return;
    }
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => pod::prepare_create(value),
        ("", "services") => value["status"] = json!({"loadBalancer": {}}),
        ("apps", _) => apps::prepare_create(resource, value),
        ("batch", _) => batch::prepare_create(resource, value),
        _ => misc::prepare_create(resource, value),
    }
    if let Some(managed) = value["metadata"].get("managedFields")
        && managed.as_array().is_none_or(Vec::is_empty)
        && let Some(metadata) = value.pointer_mut("/metadata").and_then(Value::as_object_mut)
    {
        metadata.remove("managedFields");
    }
}

/// What an update of the object itself cannot change: its status.
pub(crate) fn prepare_update(resource: &Resource, value: &mut Value, live: &Value) {
    if resource.has_status() {
        keep(value, live, "status");
    }
    if resource.custom().is_none() {
        misc::prepare_update(resource, value, live);
        if resource.group.is_empty() && resource.plural == "services" {
            service::prepare_update(value, live);
        }
        if resource.group.is_empty() && resource.plural == "pods" {
            pod::tolerate_lost_nodes(&mut value["spec"]);
        }
    }
}

/// What an update of a subresource cannot change: everything else.
pub(crate) fn prepare_subresource(resource: &Resource, subresource: &str, value: &mut Value, live: &Value) {
    if matches!(subresource, "scale" | "finalize") {
        keep(value, live, "status");
        return;
    }
    if subresource == "ephemeralcontainers" {
        let added = value["spec"].get("ephemeralContainers").cloned();
        *value = live.clone();
        put(&mut value["spec"], "ephemeralContainers", added);
        return;
    }
    if subresource == "resize" {
        pod::prepare_resize(value, live);
        return;
    }
    if subresource != "status" {
        return;
    }
    if resource.custom().is_some() {
        let status = value.get("status").cloned();
        let managed = value["metadata"].get("managedFields").cloned();
        *value = live.clone();
        put(value, "status", status);
        if let Some(managed) = managed {
            value["metadata"]["managedFields"] = managed;
        }
        return;
    }
    for key in ["spec", "data", "rules"] {
        keep(value, live, key);
    }
    if resource.group == "apps" || resource.group == "batch" {
        let labels = live["metadata"].get("labels").cloned();
        put(&mut value["metadata"], "labels", labels);
    }
    if resource.group.is_empty() && resource.plural == "pods" {
        pod::prepare_status(value, live);
    }
    if resource.group == "apps" && value.get("status").is_none() {
        value["status"] = json!({});
    }
    misc::prepare_status(resource, value, live);
}

fn keep(value: &mut Value, live: &Value, key: &str) {
    put(value, key, live.get(key).cloned());
}

fn put(value: &mut Value, key: &str, content: Option<Value>) {
    match content {
        Some(content) => value[key] = content,
        None => {
            if let Some(object) = value.as_object_mut() {
                object.remove(key);
            }
        }
    }
}

/// Generation counts changes of what the user wants.
pub(crate) fn bump_generation(
    resource: &Resource,
    subresource: Option<&str>,
    value: &mut Value,
    live: &Value,
) {
    let changed = if let Some(custom) = resource.custom() {
        if subresource == Some("status") { false } else { differs(value, live, custom.status) }
    } else if keeps_generation(resource) {
        match subresource {
            Some("status" | "binding") => false,
            // what others note on a Deployment is of interest to its controller, too
            _ if resource.plural == "deployments" => {
                let notes = |object: &Value| object["metadata"]["annotations"].clone();
                value["spec"] != live["spec"] || notes(value) != notes(live)
            }
            _ if has_spec(resource) => value["spec"] != live["spec"],
            _ => differs(value, live, true),
        }
    } else {
        return;
    };
    if changed {
        let old = live["metadata"]["generation"].as_i64().unwrap_or(0);
        value["metadata"]["generation"] = Value::from(old + 1);
    }
}

/// Marking an object for deletion is a change of what the user wants, too.
pub(crate) fn bump_for_deletion(value: &mut Value) {
    if let Some(old) = value["metadata"]["generation"].as_i64().filter(|g| *g > 0) {
        value["metadata"]["generation"] = Value::from(old + 1);
    }
}

fn differs(value: &Value, live: &Value, without_status: bool) -> bool {
    let relevant = |object: &Value| -> Map<String, Value> {
        object
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, _)| *key != "metadata" && !(without_status && *key == "status"))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    relevant(value) != relevant(live)
}

fn keeps_generation(resource: &Resource) -> bool {
    resource.built_in().is_some_and(|row: &BuiltIn| row.generation)
}

fn has_spec(resource: &Resource) -> bool {
    !matches!(
        resource.plural.as_str(),
        "priorityclasses"
            | "endpointslices"
            | "mutatingwebhookconfigurations"
            | "validatingwebhookconfigurations"
            | "podtemplates"
    )
}

/// Everything wrong with an object of a built-in kind, and with the metadata of any object.
pub(crate) fn validate(resource: &Resource, value: &Value, live: Option<&Value>) -> Vec<Cause> {
    let mut causes = metadata::validate(resource, value, live);
    if let Some(custom) = resource.custom() {
        if let Some(paths) = &custom.scale {
            let pointer = format!("/{}", paths.spec_replicas.replace('.', "/"));
            if let Some(replicas) = value.pointer(&pointer).and_then(Value::as_i64).filter(|r| *r < 0) {
                causes.push(Cause::invalid(
                    format!(".{}", paths.spec_replicas),
                    &Value::from(replicas),
                    "should be a non-negative integer",
                ));
            }
        }
        return causes;
    }
    causes.extend(match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => pod::validate(value, live),
        ("", "services") => service::validate(value, live),
        ("", "configmaps" | "secrets") => config::validate(resource, value, live),
        ("apps", _) => apps::validate(resource, value, live),
        ("batch", _) => batch::validate(resource, value, live),
        _ => misc::validate(resource, value, live),
    });
    causes
}

/// Everything wrong with a write to a subresource.
pub(crate) fn validate_subresource(
    resource: &Resource,
    subresource: &str,
    value: &Value,
    live: &Value,
) -> Vec<Cause> {
    if resource.custom().is_some() && subresource == "scale" {
        return validate(resource, value, Some(live));
    }
    let mut causes = metadata::validate(resource, value, Some(live));
    if resource.custom().is_none() && subresource == "status" {
        causes.extend(apps::validate_status(resource, value));
    }
    causes
}

/// Texts for `Warning` headers about things that work, but not as one may think.
pub(crate) fn warnings(resource: &Resource, value: &Value, live: Option<&Value>) -> Vec<String> {
    let mut warnings = metadata::warnings(resource, value, live);
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") if resource.custom().is_none() => {
            warnings.extend(pod::warnings(&value["spec"], "spec"));
        }
        ("apps" | "batch", _) if resource.custom().is_none() => {
            let (path, template) = if resource.plural == "cronjobs" {
                ("spec.jobTemplate.spec.template", &value["spec"]["jobTemplate"]["spec"]["template"])
            } else {
                ("spec.template", &value["spec"]["template"])
            };
            warnings.extend(pod::warnings(&template["spec"], &format!("{path}.spec")));
        }
        ("", "services") if resource.custom().is_none() => warnings.extend(service::warnings(value)),
        ("discovery.k8s.io", _) if resource.custom().is_none() => warnings.extend(slices::warnings(value)),
        _ => {}
    }
    warnings
}

/// Drops owners that are named twice; the warning to send.
pub(crate) fn dedupe_owners(value: &mut Value) -> Option<String> {
    metadata::dedupe_owners(value.get_mut("metadata")?)
}

/// The rule for names of a kind.
pub(crate) fn name_rule(resource: &Resource) -> NameRule {
    match (resource.group.as_str(), resource.plural.as_str()) {
        _ if resource.custom().is_some() => NameRule::Subdomain,
        ("", "services") => NameRule::Label1035,
        ("", "namespaces") => NameRule::Label,
        ("rbac.authorization.k8s.io" | "policy", _) => NameRule::PathSegment,
        _ => NameRule::Subdomain,
    }
}

/// Kinds that a PUT creates when they are missing.
pub(crate) fn creates_on_update(resource: &Resource) -> bool {
    resource.custom().is_none()
        && matches!(
            (resource.group.as_str(), resource.plural.as_str()),
            ("coordination.k8s.io", "leases")
                | ("", "events" | "endpoints" | "services")
                | ("events.k8s.io", "events")
                | ("rbac.authorization.k8s.io", _)
        )
}

/// Kinds whose deletion is answered with the object rather than with a Status.
pub(crate) fn shows_deleted(resource: &Resource) -> bool {
    resource.custom().is_none()
        && resource.group.is_empty()
        && matches!(
            resource.plural.as_str(),
            "pods"
                | "services"
                | "serviceaccounts"
                | "persistentvolumeclaims"
                | "persistentvolumes"
                | "podtemplates"
                | "resourcequotas"
        )
}

/// Refuses to delete what must stay.
pub(crate) fn check_deletion(resource: &Resource, name: &str) -> Result<(), ApiError> {
    if resource.group.is_empty()
        && resource.plural == "namespaces"
        && crate::bootstrap::NAMESPACES.contains(&name)
        && name != "kube-node-lease"
    {
        return Err(ApiError::forbidden(resource.about(name), "this namespace may not be deleted"));
    }
    Ok(())
}

/// What follows from a write: resources appear and disappear with their definitions, addresses are given back.
pub(crate) fn after_write(state: &State, resource: &Resource, before: Option<&Value>, after: Option<&Value>) {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            crate::verbs::crds::changed(state, before, after);
        }
        ("", "services") => service::release(state, before, after),
        _ => {
            if let (Some(custom), None) = (resource.custom(), after) {
                crate::verbs::crds::instance_gone(state, &custom.crd_name);
            }
        }
    }
}

/// Whether a label selector object selects these labels.
pub(crate) fn selects(selector: &Value, labels: &Value) -> bool {
    apps::matches(selector, labels)
}

/// A label selector object as text, as scales show it: `a=b,c in (d,e)`.
pub(crate) fn selector_text(selector: &Value) -> String {
    let mut parts: Vec<String> = selector["matchLabels"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> =
            expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        values.sort_unstable();
        parts.push(match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    parts.sort();
    parts.join(",")
}

/// Typed objects have no nulls; neither have ours.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, v| !v.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Sets a field that is missing.
fn fill(object: &mut Value, key: &str, default: impl Into<Value>) {
    if object.get(key).is_none_or(Value::is_null) {
        object[key] = default.into();
    }
}

/// Removes a field that is empty.
fn drop_empty(object: &mut Value, keys: &[&str]) {
    let Some(map) = object.as_object_mut() else { return };
    for key in keys {
        let empty = match map.get(*key) {
            Some(Value::Array(items)) => items.is_empty(),
            Some(Value::Object(fields)) => fields.is_empty(),
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Bool(set)) => !set,
            Some(Value::Number(number)) => number.as_i64() == Some(0),
            _ => false,
        };
        if empty {
            map.remove(*key);
        }
    }
}
