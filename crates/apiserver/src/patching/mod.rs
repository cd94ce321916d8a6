//! PATCH bodies and field ownership.

mod body;
pub(crate) mod json_patch;
mod kinds;
mod scale;

use jiff::Timestamp;
use longboat_patch::{fields, gofmt, managed, managed::ManagedError, strategic};
use longboat_types::type_of_kind;
use serde_json::{Map, Value, json};

use crate::{
    clock,
    depth::MAX_DEPTH,
    kinds::{Registry, Resource},
    request::decode::Document,
    status::{ApiError, Cause, StatusDetails},
};

use json_patch::{JsonPatchError, MAX_OPERATIONS};
use kinds::Kinds;
pub(crate) use scale::apply_scale;

/// The longest name of a field manager, in bytes.
const MAX_MANAGER_BYTES: usize = 128;
/// Errors about patches do not name the object.
const NOTHING: StatusDetails<'static> = StatusDetails { group: "", kind: "", name: "" };

/// The media types of PATCH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchKind {
    /// `application/json-patch+json`
    Json,
    /// `application/merge-patch+json`
    Merge,
    /// `application/strategic-merge-patch+json`
    Strategic,
    /// `application/apply-patch+yaml`
    Apply,
}

/// The context of a patch or of another write that tracks field ownership.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Write<'a> {
    /// All served resources: field ownership may name other versions of the object.
    pub registry: &'a Registry,
    /// The version that the request named.
    pub resource: &'a Resource,
    /// `status`, `scale`, or `None`.
    pub subresource: Option<&'a str>,
    /// Field manager; never empty.
    pub manager: &'a str,
    /// Whether an apply takes over fields that others own.
    pub force: bool,
    /// Time written into managedFields.
    pub now: Timestamp,
}

/// The result of a patch.
#[derive(Debug, Clone)]
pub(crate) struct PatchOutcome {
    /// The patched object in the version of the request. After an apply, its managedFields are up to date.
    pub object: Value,
    /// Duplicate and unknown fields of the patch. `fieldValidation` decides whether they become an error or a warning.
    pub field_problems: Vec<String>,
    /// The patch in the form that error messages show.
    pub shown: String,
}

/// Applies a patch body to `live`, the object in the version of the request. `live` is `None` only for an apply that creates
/// the object.
pub(crate) fn patch(
    write: &Write<'_>,
    kind: PatchKind,
    body: &[u8],
    live: Option<&Value>,
) -> Result<PatchOutcome, ApiError> {
    let before = live.cloned().unwrap_or_else(|| json!({}));
    let text = || String::from_utf8_lossy(body).into_owned();
    match kind {
        PatchKind::Json => {
            let document = body::json_patch(body)?;
            let object = json_patch::apply(before, &document.value).map_err(unpatchable)?;
            Ok(patched(object, document.duplicates, text()))
        }
        PatchKind::Merge => {
            let document = body::merge_patch(body)?;
            let mut object = before;
            merge(&mut object, document.value);
            Ok(patched(object, document.duplicates, text()))
        }
        PatchKind::Strategic => {
            let document = body::strategic_patch(body)?;
            strategically(write, before, document)
        }
        PatchKind::Apply => {
            let document = body::apply_patch(body)?;
            let object = apply(write, live, &document.value)?;
            Ok(patched(object, document.duplicates, text()))
        }
    }
}

/// Updates `metadata.managedFields` of `new` after a create, an update or a patch other than apply: the manager becomes the
/// owner of the fields that differ from `live`. Both objects are in the version of the request, with defaults. An update
/// that changes nothing keeps the entries and times of `live`.
pub(crate) fn track(write: &Write<'_>, live: Option<&Value>, new: &mut Value) {
    let api_version = write.resource.api_version();
    let kinds = Kinds::of(write.registry, write.resource, &[live.unwrap_or(&Value::Null), new]);
    let ignored = ignored_fields(write);
    let now = clock::seconds(write.now);
    let options = managed_write(write, &api_version, &write.resource.kind, &now, &ignored);
    managed::update(&options, &kinds, live, new);
}

/// Copies the times in `managedFields` from `live` if the objects differ in nothing else. So a write that changes nothing
/// stays a no-op.
pub(crate) fn keep_times(live: &Value, new: &mut Value) {
    let entries =
        |object: &Value| object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let (before, after) = (entries(live), entries(new));
    if before == after || before.len() != after.len() {
        return;
    }
    let same = before.iter().zip(&after).all(|(before, after)| {
        ["manager", "operation", "apiVersion", "subresource", "fieldsV1"]
            .iter()
            .all(|key| before.get(key) == after.get(key))
    });
    if same && managed::without_entries(live) == managed::without_entries(new) {
        new["metadata"]["managedFields"] = Value::Array(before);
    }
}

/// Validates the name of a field manager.
pub(crate) fn check_manager(manager: &str) -> Vec<Cause> {
    if manager.len() > MAX_MANAGER_BYTES {
        return vec![Cause::too_long("fieldManager", MAX_MANAGER_BYTES)];
    }
    manager
        .chars()
        .enumerate()
        .filter(|(_, character)| character.is_control())
        .map(|(at, character)| Cause {
            reason: "FieldValueInvalid",
            message: format!(
                "Invalid value: {}: invalid character U+{:04X} (at position {at})",
                gofmt::quote(manager),
                character as u32
            ),
            field: "fieldManager".to_owned(),
        })
        .collect()
}

fn patched(object: Value, duplicates: Vec<String>, shown: String) -> PatchOutcome {
    let field_problems = duplicates.into_iter().map(|path| format!("duplicate field \"{path}\"")).collect();
    PatchOutcome { object, field_problems, shown }
}

fn unpatchable(refused: JsonPatchError) -> ApiError {
    match refused {
        JsonPatchError::Unprocessable { .. } => unprocessable(),
        JsonPatchError::TooMany(operations) => ApiError::new(
            413,
            "RequestEntityTooLarge",
            format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got \
                 {operations}"
            ),
        ),
        JsonPatchError::TooDeep => ApiError::new(
            422,
            "Invalid",
            format!(
                "the patched object is nested too deeply: expected at most {MAX_DEPTH} levels of maps and \
                 lists"
            ),
        ),
    }
}

/// A 422 error without a cause, as kube-apiserver answers JSON patches that cannot be applied.
fn unprocessable() -> ApiError {
    let text = "the server rejected our request due to an error in our request";
    ApiError::new(422, "Invalid", text).with_details(Map::new())
}

/// Applies a JSON merge patch (RFC 7386). Like kube-apiserver, this also removes nulls from objects within lists.
fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        strategic::discard_nulls(target);
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(&key);
        } else {
            merge(target.entry(key).or_insert(Value::Null), value);
        }
    }
}

fn strategically(write: &Write<'_>, before: Value, document: Document) -> Result<PatchOutcome, ApiError> {
    let resource = write.resource;
    let def = type_of_kind(&resource.api_version(), &resource.kind)
        .or_else(|| type_of_kind("autoscaling/v1", &resource.kind))
        .ok_or_else(|| ApiError::bad_request("strategic merge patch format is not supported"))?;
    let shown = gofmt::plain(&document.value);
    let object = strategic::merge(before, document.value, def.name).map_err(|error| match error {
        strategic::Error::NotAnObject
        | strategic::Error::BadPrimitiveList
        | strategic::Error::BadRetainKeys
        | strategic::Error::BadElementOrder => ApiError::bad_request(error.to_string()),
        strategic::Error::ListOfLists => unprocessable(),
        other => ApiError::unexpected_error(other.to_string()),
    })?;
    if let Some(why) = body::unrestorable(&object, def) {
        return Err(ApiError::invalid(NOTHING, &[Cause::invalid("patch", &Value::from(shown), why)]));
    }
    Ok(patched(object, document.duplicates, shown))
}

fn apply(write: &Write<'_>, live: Option<&Value>, config: &Value) -> Result<Value, ApiError> {
    let api_version = write.resource.api_version();
    let kinds = Kinds::of(write.registry, write.resource, &[live.unwrap_or(&Value::Null)]);
    let ignored = ignored_fields(write);
    let now = clock::seconds(write.now);
    let options = managed_write(write, &api_version, &write.resource.kind, &now, &ignored);
    let object = managed::apply(&options, &kinds, live, config).map_err(refusal)?;
    let resource = write.resource;
    if resource.custom().is_none()
        && let Some(def) = type_of_kind(&api_version, &resource.kind)
        && let Some(why) = body::unrestorable(&object, def)
    {
        let kind = format!("{}/{}, Kind={}", resource.group, resource.version, resource.kind);
        let text = |field: &str| {
            config["metadata"].get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let (namespace, name) = (text("namespace"), text("name"));
        return Err(ApiError::unexpected_error(format!(
            "failed to convert new object ({namespace}/{name}; {kind}) to proper version: unable to convert \
             unstructured object to {kind}: {why}"
        )));
    }
    Ok(object)
}

fn managed_write<'a>(
    write: &Write<'a>,
    api_version: &'a str,
    kind: &'a str,
    now: &'a str,
    ignored: &'a fields::Set,
) -> managed::Write<'a> {
    managed::Write {
        api_version,
        kind,
        manager: write.manager,
        subresource: write.subresource.unwrap_or_default(),
        force: write.force,
        now,
        ignored: Some(ignored),
    }
}

/// Returns the fields that the endpoint does not change: the status at the object's endpoint, everything else at the status
/// endpoint.
fn ignored_fields(write: &Write<'_>) -> fields::Set {
    let resource = write.resource;
    let paths: &[&[&str]] = match write.subresource {
        None if resource.has_status() => &[&["status"]],
        Some("status") if resource.custom().is_some() => &[&["spec"]],
        Some("status") => &[&["spec"], &["metadata", "labels"]],
        _ => &[],
    };
    let paths: Vec<fields::Path> = paths.iter().map(|path| fields::Path::of_fields(path)).collect();
    fields::Set::of(&paths)
}

fn refusal(error: ManagedError) -> ApiError {
    match error {
        ManagedError::BadRequest(text) => ApiError::bad_request(text),
        ManagedError::Failed(text) => ApiError::unexpected_error(text),
        ManagedError::Conflict(conflicts) => {
            let causes: Vec<Value> = conflicts
                .0
                .iter()
                .map(|conflict| {
                    json!({
                        "reason": "FieldManagerConflict",
                        "message": conflict.message(),
                        "field": conflict.path.to_string(),
                    })
                })
                .collect();
            let details = [("causes".to_owned(), Value::Array(causes))].into_iter().collect();
            ApiError::new(409, "Conflict", conflicts.to_string()).with_details(details)
        }
    }
}

#[cfg(test)]
mod tests;
