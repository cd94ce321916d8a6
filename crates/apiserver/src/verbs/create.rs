//! POST of an object.

use jiff::Timestamp;
use longboat_key::names::GENERATED_ALPHABET;
use rand::Rng;
use serde_json::{Value, json};

use super::{Call, crds, incoming, validate::validate};
use crate::{
    admit, allocation,
    answer::Answer,
    clock, effects,
    form::{self, RequestedObject},
    kinds::Resource,
    limits, patching, rbac, respond,
    review::Review,
    status::{ApiError, StatusDetails},
    store::{Key, WriteError},
    strategy,
};

/// The table of namespaces.
pub(crate) const NAMESPACES: &str = "/namespaces";
/// How many suffixes to try if a generated name is taken.
const MAX_ATTEMPTS: usize = 8;

/// `POST …/<plural>`.
pub(crate) async fn create(call: &mut Call<'_>) -> Result<Answer, ApiError> {
    let dry_run = call.request.query.dry_run("CreateOptions")?;
    let value = incoming::object(call, "CreateOptions")?;
    let shown = object(call, value, dry_run, true).await?;
    respond::object(call.request, &call.resource, 201, &shown)
}

/// Creates a decoded object. `track` is `false` if an apply has already computed managedFields.
pub(crate) async fn object(
    call: &mut Call<'_>,
    mut value: Value,
    dry_run: bool,
    track: bool,
) -> Result<RequestedObject, ApiError> {
    let resource = std::sync::Arc::clone(&call.resource);
    check_namespace(call, &mut value)?;
    // kube-apiserver's storage layer refuses the revision, and a dry run does not reach the storage
    if !dry_run && value["metadata"]["resourceVersion"].as_str().is_some_and(|v| !v.is_empty()) {
        return Err(ApiError::unexpected_error("resourceVersion should not be set on objects to be created"));
    }
    let generated = value["metadata"]["name"].as_str().is_none_or(str::is_empty)
        && value["metadata"]["generateName"].as_str().is_some_and(|g| !g.is_empty());
    let (warnings, mut tries) = (call.warnings.len(), 0);
    loop {
        let result = attempt(call, &resource, value.clone(), dry_run, track).await;
        match result {
            Err(error) if generated && error.reason == "AlreadyExists" && tries < MAX_ATTEMPTS => {
                tries += 1;
                // The next attempt warns again.
                call.warnings.truncate(warnings);
            }
            other => return other,
        }
    }
}

async fn attempt(
    call: &mut Call<'_>,
    resource: &Resource,
    mut value: Value,
    dry_run: bool,
    track: bool,
) -> Result<RequestedObject, ApiError> {
    let namespace = call.path.namespace.clone().unwrap_or_default();
    let user = call.request.user.info();
    let options = json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"});
    let options = admit::options(options, &call.request.query, dry_run);
    let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    check_parents(call, &namespace, &name)?;
    let review = Review {
        operation: "CREATE",
        resource,
        subresource: None,
        namespace: call.review_namespace(&name).map(str::to_owned),
        name: name.clone(),
        old: None,
        options: &options,
        user: &user,
        dry_run,
    };
    if track {
        let write = patching::Write {
            registry: &call.state.registry,
            resource,
            subresource: None,
            manager: &call.request.field_manager(),
            force: false,
            now: Timestamp::now(),
        };
        // fields that webhooks or the server itself add have no owner
        patching::track(&write, None, &mut value);
        limits::refuse_large(&value)?;
    }
    let mut value = admit::mutate(call.state, &review, value, &mut call.warnings).await?;
    // A webhook may change the name, under which the object is then stored, but not the namespace.
    check_namespace(call, &mut value)?;
    rbac::escalation::check(&call.state.store, &call.request.user, resource, &value, None)?;
    // webhooks that change the object see it without uid and times, as in kube-apiserver
    stamp(resource, &mut value);
    call.warnings.extend(strategy::dedupe_owners(&mut value));
    strategy::prepare_create(resource, &mut value);
    let services = allocation::allocate(call.state, resource, &mut value, None)?;
    let name = value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    validate(call, None, &name, &value, None)?;
    resource.strategy().complete_on_read(&mut value);
    admit::validate(call.state, &review, Some(&value), &mut call.warnings).await?;
    let key = Key::new(namespace.clone(), name.clone());
    if dry_run {
        if call.state.store.get(&resource.table, &key).is_some() {
            return Err(already_exists(call, &key));
        }
        return Ok(RequestedObject::new(value));
    }
    let stored = form::to_storage(call.state, resource, value).await?;
    let parents = parents(resource, &namespace);
    match call.state.store.create(&resource.table, key.clone(), stored, &parents) {
        Ok(stored) => {
            services.keep();
            effects::after_write(call.state, resource, None, Some(&stored.value));
            form::show(call.state, resource, stored).await
        }
        Err(WriteError::Exists) => Err(already_exists(call, &key)),
        // while webhooks answered
        Err(WriteError::Leaving) => {
            check_parents(call, &namespace, &name)?;
            Err(ApiError::internal(WriteError::Leaving.to_string()))
        }
        Err(error) => Err(ApiError::internal(error.to_string())),
    }
}

/// Returns the error that the name is taken, perhaps by an object that is being deleted.
fn already_exists(call: &Call<'_>, key: &Key) -> ApiError {
    let mut error = ApiError::already_exists(call.resource.about(&key.name));
    if let Some(found) = call.state.store.get(&call.resource.table, key)
        && found.metadata()["deletionTimestamp"].is_string()
    {
        error.message = format!("object is being deleted: {}", error.message);
    }
    error
}

/// Fills in the namespace of the path. Refuses an object with another namespace.
pub(crate) fn check_namespace(call: &Call<'_>, value: &mut Value) -> Result<(), ApiError> {
    if !value["metadata"].is_object() {
        value["metadata"] = json!({});
    }
    let given = value["metadata"]["namespace"].as_str().unwrap_or_default();
    match &call.path.namespace {
        Some(namespace) => {
            if !given.is_empty() && given != namespace {
                return Err(ApiError::bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request",
                ));
            }
            value["metadata"]["namespace"] = Value::from(namespace.as_str());
        }
        None => strategy::put(&mut value["metadata"], "namespace", None),
    }
    Ok(())
}

/// The tables and keys of the objects that a new object belongs to: its namespace, and the definition of its kind.
fn parents(resource: &Resource, namespace: &str) -> Vec<(&'static str, Key)> {
    let namespace = (!namespace.is_empty()).then(|| (NAMESPACES, Key::new("", namespace)));
    let definition = resource.custom().map(|custom| (crds::TABLE, Key::new("", custom.crd_name.as_str())));
    namespace.into_iter().chain(definition).collect()
}

/// Refuses a new object whose namespace or definition does not exist or is being deleted.
fn check_parents(call: &Call<'_>, namespace: &str, name: &str) -> Result<(), ApiError> {
    check_namespace_exists(call, namespace, name)?;
    let Some(custom) = call.resource.custom() else { return Ok(()) };
    let found = call.state.store.get(crds::TABLE, &Key::new("", custom.crd_name.as_str()));
    let definition = found.ok_or_else(ApiError::no_such_resource)?;
    if definition.metadata()["deletionTimestamp"].is_null() {
        return Ok(());
    }
    let why = "create not allowed while custom resource definition is terminating";
    Err(ApiError::forbidden(call.resource.about(name), why))
}

/// Refuses a new object whose namespace does not exist or is being deleted.
fn check_namespace_exists(call: &Call<'_>, namespace: &str, name: &str) -> Result<(), ApiError> {
    if namespace.is_empty() {
        return Ok(());
    }
    let found = call.state.store.get(NAMESPACES, &Key::new("", namespace)).ok_or_else(|| {
        ApiError::not_found(StatusDetails { group: "", kind: "namespaces", name: namespace })
    })?;
    if found.metadata()["deletionTimestamp"].is_null() {
        return Ok(());
    }
    let mut error = ApiError::forbidden(
        call.resource.about(name),
        format!("unable to create new content in namespace {namespace} because it is being terminated"),
    );
    if let Some(details) = &mut error.details {
        let message = format!("namespace {namespace} is being terminated");
        let cause =
            json!({"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"});
        details.insert("causes".to_owned(), json!([cause]));
    }
    Err(error)
}

/// Sets the metadata that the server controls in a new object.
fn stamp(resource: &Resource, value: &mut Value) {
    let Some(metadata) = value.pointer_mut("/metadata").and_then(Value::as_object_mut) else {
        return;
    };
    for key in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"] {
        metadata.remove(key);
    }
    metadata.insert("uid".to_owned(), Value::from(uuid::Uuid::new_v4().to_string()));
    metadata.insert("creationTimestamp".to_owned(), Value::from(clock::now()));
    let generates = metadata.get("name").and_then(Value::as_str).is_none_or(str::is_empty);
    let prefix = metadata.get("generateName").and_then(Value::as_str).unwrap_or_default();
    if generates && !prefix.is_empty() {
        // the prefix is truncated, so that the name with its suffix stays within 63 bytes
        let kept: String = prefix.chars().take(58).collect();
        metadata.insert("name".to_owned(), Value::from(format!("{kept}{}", random_suffix())));
    }
    if !resource.namespaced {
        metadata.remove("namespace");
    }
}

fn random_suffix() -> String {
    let mut random = rand::rng();
    (0..5).map(|_| char::from(GENERATED_ALPHABET[random.random_range(0..GENERATED_ALPHABET.len())])).collect()
}
