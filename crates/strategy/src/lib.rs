//! What an API server makes of an object before it stores it: fields, defaults, validation. Pure functions of the object.
//!
//! Each row of [`kinds::builtin::TABLE`] names its [`Strategy`]; one file holds the strategies of a kind or of a
//! family of kinds. The functions here do what is the same for all kinds, then call the strategy. A custom resource has no
//! strategy: its schema defines everything. [`examine`] runs all steps of a request without a server.

mod account;
mod apps;
mod autoscaling;
mod batch;
mod checks;
mod classes;
pub mod clock;
mod config;
pub mod defaults;
mod devices;
mod event;
pub mod examine;
mod exposure;
mod extension;
pub mod fields;
mod interface;
mod job_spec;
pub mod kinds;
mod lease;
mod metadata;
mod namespace;
mod networking;
mod node;
pub mod plugins;
mod pod;
mod policy;
mod quantity;
mod rbac;
mod schedule;
mod selector;
mod service;
mod sets;
mod slices;
mod storage;
mod templates;
mod update;
mod volumes;
mod webhooks;

use longboat_types::type_of_kind;
use serde_json::{Value, json};

pub use longboat_key::names;
pub use longboat_schema::{Cause, Field, causes_of};

pub use self::{
    interface::Strategy,
    selector::{selector_text, selects},
    service::address_causes,
};

pub(crate) use self::{
    account::ServiceAccount,
    apps::Workload,
    autoscaling::Autoscaler,
    batch::Batch,
    classes::Class,
    config::Config,
    devices::Devices,
    event::Event,
    extension::{Definition, WebhookConfiguration},
    interface::Plain,
    lease::Lease,
    namespace::Namespace,
    networking::{Ingress, NetworkPolicy},
    node::Node,
    pod::Pod,
    policy::{Budget, ResourceQuota},
    rbac::Rbac,
    service::Service,
    slices::{EndpointSlice, Endpoints},
    storage::Claim,
    templates::{ControllerRevision, PodTemplate, ReplicationController},
    volumes::Volume,
};
use self::{
    kinds::Resource,
    update::{differs, keep},
};

pub use self::update::put;

/// Fills in the defaults of the kind. Objects of built-in kinds get the form in which kube-apiserver writes them.
pub fn default(resource: &Resource, value: &mut Value) {
    if let Some(custom) = resource.custom() {
        custom.schema.default(value);
        return;
    }
    longboat_patch::strategic::discard_nulls(value);
    if !value["metadata"].is_object() {
        value["metadata"] = json!({});
    }
    // An empty `managedFields` is a request to forget all managers, so it must not become a missing one.
    let managed_fields =
        value["metadata"].as_object_mut().and_then(|metadata| metadata.remove("managedFields"));
    let strategy = resource.strategy();
    strategy.default(value);
    let shown = strategy.refused_if_empty(value);
    let shown = shown
        .and_then(|(holder, field)| Some((holder, field, value.pointer(holder)?.get(field)?.clone())))
        .filter(|(_, _, given)| defaults::is_zero(given));
    // The server of CustomResourceDefinitions fills in theirs itself.
    let def = type_of_kind(&resource.api_version(), &resource.kind);
    if let Some(def) = def.filter(|_| resource.kind != "CustomResourceDefinition") {
        defaults::fill_in(def.name, value);
    }
    if let Some((holder, field, empty)) = shown
        && let Some(Value::Object(holder)) = value.pointer_mut(holder)
    {
        holder.insert(field.to_owned(), empty);
    }
    if let Some(managed_fields) = managed_fields {
        value["metadata"]["managedFields"] = managed_fields;
    }
}

/// Prepares a new object: drops its status and sets generation 1.
pub fn prepare_create(resource: &Resource, value: &mut Value) {
    if resource.has_status() {
        put(value, "status", None);
    }
    if resource.built_in().is_none_or(|row| row.generation) {
        value["metadata"]["generation"] = Value::from(1);
    }
    let Some(row) = resource.built_in() else { return };
    row.strategy.prepare_create(value);
    if let Some(managed) = value["metadata"].get("managedFields")
        && managed.as_array().is_none_or(Vec::is_empty)
    {
        put(&mut value["metadata"], "managedFields", None);
    }
}

/// Restores the status, which an update of the object itself cannot change.
pub fn prepare_update(resource: &Resource, value: &mut Value, live: &Value) {
    if resource.has_status() {
        keep(value, live, "status");
    }
    resource.strategy().prepare_update(value, live);
}

/// Restores everything that an update of this subresource cannot change.
pub fn prepare_subresource(resource: &Resource, subresource: &str, value: &mut Value, live: &Value) {
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
    resource.strategy().prepare_status(value, live);
}

/// Increments the generation if the write changes the desired state.
pub fn bump_generation(resource: &Resource, subresource: Option<&str>, value: &mut Value, live: &Value) {
    let changed = if let Some(custom) = resource.custom() {
        subresource != Some("status") && differs(value, live, custom.status)
    } else if let Some(row) = resource.built_in().filter(|row| row.generation) {
        !matches!(subresource, Some("status" | "binding")) && row.strategy.is_new_generation(value, live)
    } else {
        return;
    };
    if changed {
        let old = live["metadata"]["generation"].as_i64().unwrap_or(0);
        value["metadata"]["generation"] = Value::from(old + 1);
    }
}

/// Increments the generation when the object is marked for deletion.
pub fn bump_for_deletion(value: &mut Value) {
    if let Some(old) = value["metadata"]["generation"].as_i64().filter(|g| *g > 0) {
        value["metadata"]["generation"] = Value::from(old + 1);
    }
}

/// Validates an object of a built-in kind, or the metadata of a custom resource.
pub fn validate(resource: &Resource, value: &Value, live: Option<&Value>) -> Vec<Cause> {
    let mut causes = metadata::validate(resource, value, live);
    if let Some(custom) = resource.custom() {
        causes.extend(custom.scale.iter().flat_map(|paths| paths.validate(value)));
        return causes;
    }
    causes.extend(causes_of(value, "", |object| resource.strategy().validate(object, live)));
    causes
}

/// Validates the labels and annotations of any object's metadata.
pub fn validate_labels_and_annotations(metadata: &Value) -> Vec<Cause> {
    causes_of(metadata, "metadata", metadata::labels_and_annotations)
}

/// Fills in the defaults of a pod template that is a part of a custom resource. Returns why the pods of its operator would be
/// refused.
pub fn template_causes(template: &mut Value, path: &str) -> Vec<Cause> {
    defaults::fill_in("core.v1.PodTemplateSpec", template);
    let causes = causes_of(template, path, |template| apps::validate_template(template, &["Always"]));
    if causes.is_empty() { plugins::causes_of_pods(template, path) } else { causes }
}

/// Validates a write to a subresource.
pub fn validate_subresource(
    resource: &Resource,
    subresource: &str,
    value: &Value,
    live: &Value,
) -> Vec<Cause> {
    if resource.custom().is_some() && subresource == "scale" {
        return validate(resource, value, Some(live));
    }
    let mut causes = metadata::validate(resource, value, Some(live));
    if let Some(paths) = resource.custom().and_then(|custom| custom.scale.as_ref())
        && subresource == "status"
    {
        causes.extend(paths.validate_status(value));
    }
    if subresource == "status" {
        causes.extend(causes_of(value, "", |object| resource.strategy().validate_status(object)));
    }
    causes
}

/// Returns texts for `Warning` headers, about settings that are valid but may surprise the user.
pub fn warnings(resource: &Resource, value: &Value, live: Option<&Value>) -> Vec<String> {
    let mut warnings = metadata::warnings(resource, value, live);
    warnings.extend(resource.strategy().warnings(value, live));
    warnings
}

/// Removes unknown fields. Returns their paths.
pub fn prune(resource: &Resource, value: &mut Value) -> Vec<String> {
    let Some(custom) = resource.custom() else { return fields::prune_builtin(resource, value) };
    normalise_times(value);
    match &custom.scale {
        Some(paths) => paths.keeping_floats(value, |value| custom.schema.prune(value)),
        None => custom.schema.prune(value),
    }
}

/// Writes the times in the metadata of a custom resource as Go does.
fn normalise_times(object: &mut Value) {
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else { return };
    let entries = metadata.get_mut("managedFields").and_then(Value::as_array_mut).into_iter().flatten();
    for time in entries.filter_map(|entry| entry.get_mut("time")) {
        clock::normalise(time, clock::seconds);
    }
    for name in ["creationTimestamp", "deletionTimestamp"] {
        if let Some(time) = metadata.get_mut(name) {
            clock::normalise(time, clock::seconds);
        }
    }
}

/// Drops duplicate owner references. Returns the warning to send.
pub fn dedupe_owners(value: &mut Value) -> Option<String> {
    metadata::dedupe_owners(value.get_mut("metadata")?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::normalise_times;

    #[test]
    fn times_in_the_metadata_of_a_custom_resource_are_written_in_utc() {
        let object = |time: &str| {
            let entries = json!([{"manager": "a", "time": time}, {"manager": "b"}]);
            json!({"metadata": {"creationTimestamp": time, "deletionTimestamp": time, "managedFields": entries}})
        };
        let mut given = object("2020-01-01T01:00:00.5+01:00");
        normalise_times(&mut given);
        assert_eq!(given, object("2020-01-01T00:00:00Z"));
        let mut other = json!({"metadata": {"creationTimestamp": 1, "managedFields": {}}});
        normalise_times(&mut other);
        assert_eq!(other, json!({"metadata": {"creationTimestamp": 1, "managedFields": {}}}));
    }
}
