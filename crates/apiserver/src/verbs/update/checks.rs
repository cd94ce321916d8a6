//! Checks that a changed object is still the object of the path, at the revision that the client expects.

use serde_json::Value;

use super::change::{Change, MODIFIED};
use crate::{
    kinds::{Resource, registry::split_api_version},
    patching::PatchKind,
    status::{ApiError, Cause, StatusDetails},
    verbs::{Call, create, incoming},
};

/// Checks that the object is the one that the path names.
pub(super) fn check_identity(call: &Call<'_>, how: &Change, value: &mut Value) -> Result<(), ApiError> {
    let expected = call.path.name.as_deref().unwrap_or_default();
    if matches!(how, Change::Patch(_)) {
        identify_patched(call, how, value)?;
    }
    let name = value["metadata"]["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({expected} based on URL) was undeterminable: name must be provided"
        )));
    }
    if name != expected {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({expected})"
        )));
    }
    create::check_namespace(call, value)
}

/// Refuses a patch that changes the kind. For a built-in kind, a patch may name another version of the group.
fn identify_patched(call: &Call<'_>, how: &Change, value: &mut Value) -> Result<(), ApiError> {
    let resource = &call.resource;
    if resource.custom().is_none() {
        let kind = value["kind"].as_str().unwrap_or_default().to_owned();
        let strategic = matches!(how, Change::Patch(PatchKind::Strategic));
        if strategic {
            // a strategic merge patch works on the typed object, whose kind cannot change
            value["kind"] = Value::from(resource.kind.as_str());
            value["apiVersion"] = Value::from(resource.api_version());
            return Ok(());
        }
        if !kind.is_empty() && kind != resource.kind {
            let package = resource.group.split('.').next().filter(|g| !g.is_empty()).unwrap_or("core");
            let version = &resource.version;
            return Err(refuse_patch(
                &String::from_utf8_lossy(&call.request.body),
                &format!(
                    "converting ({version}.{kind}) to ({package}.{}): unknown conversion",
                    resource.kind
                ),
            ));
        }
        let version = value["apiVersion"].as_str().unwrap_or_default();
        let (group, number) = split_api_version(version);
        if !version.is_empty() && (group != resource.group || !is_version_of(group, number)) {
            return Err(refuse_patch(
                &String::from_utf8_lossy(&call.request.body),
                &format!(
                    "no kind \"{}\" is registered for version \"{version}\" in scheme \"pkg/runtime/scheme.go:110\"",
                    resource.kind
                ),
            ));
        }
        value["kind"] = Value::from(resource.kind.as_str());
        value["apiVersion"] = Value::from(resource.api_version());
        return Ok(());
    }
    *value = incoming::identify(resource, std::mem::take(value), &call.request.body)?;
    Ok(())
}

/// Whether a group has, or once had, this version.
fn is_version_of(group: &str, version: &str) -> bool {
    match group {
        "" => version == "v1",
        "autoscaling" => matches!(version, "v1" | "v2" | "v2beta1" | "v2beta2"),
        "apps" => matches!(version, "v1" | "v1beta1" | "v1beta2"),
        _ => version.starts_with("v1"),
    }
}

pub(in crate::verbs) fn refuse_patch(shown: &str, why: &str) -> ApiError {
    ApiError::invalid(
        StatusDetails { group: "", kind: "", name: "" },
        &[Cause::invalid("patch", &Value::from(shown), why)],
    )
}

/// Checks that the revision and the uid in the object are the stored ones. Returns whether the client named a revision.
pub(super) fn check_revision(
    call: &Call<'_>,
    how: &Change,
    value: &Value,
    live: &Value,
) -> Result<bool, ApiError> {
    let resource = &call.resource;
    let name = live["metadata"]["name"].as_str().unwrap_or_default();
    let given = value["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let unconditional = given.is_empty() || given == "0";
    if unconditional && !allows_unconditional_update(resource) && !matches!(how, Change::Edit(..)) {
        return Err(ApiError::invalid(
            resource.about(name),
            &[Cause {
                reason: "FieldValueInvalid",
                message: "Invalid value: 0: must be specified for an update".to_owned(),
                field: "metadata.resourceVersion".to_owned(),
            }],
        ));
    }
    if !unconditional && given.parse::<u64>().is_err() {
        return Err(ApiError::unexpected_error(format!(
            "strconv.ParseUint: parsing \"{given}\": invalid syntax"
        )));
    }
    let uid = value["metadata"]["uid"].as_str().unwrap_or_default();
    let stored_uid = live["metadata"]["uid"].as_str().unwrap_or_default();
    if !uid.is_empty() && uid != stored_uid && matches!(how, Change::Replace(_)) {
        return Err(ApiError::conflict(
            resource.about(name),
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {stored_uid}"),
        ));
    }
    if unconditional {
        return Ok(false);
    }
    if live["metadata"]["resourceVersion"] != given {
        return Err(ApiError::conflict(resource.about(name), MODIFIED));
    }
    // a patch that does not set the revision carries the stored one
    Ok(matches!(how, Change::Replace(_)))
}

/// Whether an update of the kind need not name a revision.
fn allows_unconditional_update(resource: &Resource) -> bool {
    resource.custom().is_none()
        && !matches!(
            resource.plural.as_str(),
            "customresourcedefinitions"
                | "leases"
                | "mutatingwebhookconfigurations"
                | "poddisruptionbudgets"
                | "validatingwebhookconfigurations"
        )
}

/// Restores the metadata that clients cannot change.
pub(super) fn carry_over(value: &mut Value, live: &Value) {
    let Some(metadata) = value.pointer_mut("/metadata").and_then(Value::as_object_mut) else {
        return;
    };
    for key in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
    ] {
        // a different uid or deletion time stays in place, so that validation refuses the change as immutable
        let given = metadata
            .get(key)
            .is_some_and(|value| value.is_number() || value.as_str().is_some_and(|text| !text.is_empty()));
        if given && matches!(key, "uid" | "deletionTimestamp" | "deletionGracePeriodSeconds") {
            continue;
        }
        match live["metadata"].get(key) {
            Some(kept) => metadata.insert(key.to_owned(), kept.clone()),
            None => metadata.remove(key),
        };
    }
    metadata.remove("selfLink");
}
