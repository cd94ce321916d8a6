//! PUT and PATCH of an object or of its status.

mod change;
mod checks;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub(crate) use self::change::{Change, MODIFIED};
pub(super) use self::checks::refuse_patch;
use self::checks::{carry_over, check_identity, check_revision};
use super::{Call, create, incoming, validate::validate};
use crate::{
    admit,
    allocation::{self, Allocation},
    answer::Answer,
    deletion::is_finished,
    effects,
    form::{self, RequestedObject},
    kinds::Resource,
    limits,
    patching::{self, PatchKind},
    rbac,
    request::query::FieldValidation,
    respond,
    review::Review,
    status::{ApiError, Cause, StatusDetails},
    store::{StoredObject, WriteError},
    strategy,
};

/// How many times to try a change without a revision when other writes interfere.
const MAX_ATTEMPTS: usize = 10;

/// `PUT …/<name>[/status]`.
pub(crate) async fn replace(call: &mut Call<'_>, subresource: Option<&str>) -> Result<Answer, ApiError> {
    let dry_run = call.request.query.dry_run("UpdateOptions")?;
    if call.path.name.is_none() {
        return Err(ApiError::bad_request("name must be provided"));
    }
    let mut value = incoming::object(call, "UpdateOptions")?;
    checks::check_identity(call, &Change::Replace(Value::Null), &mut value)?;
    let (code, shown) = change(call, subresource, &Change::Replace(value), dry_run).await?;
    respond::object(call.request, &call.resource, code, &shown)
}

/// `PATCH …/<name>[/status]`.
pub(crate) async fn patch(call: &mut Call<'_>, subresource: Option<&str>) -> Result<Answer, ApiError> {
    let kind = patch_kind(call)?;
    check_patch_options(call, kind)?;
    let dry_run = call.request.query.dry_run("PatchOptions")?;
    let (code, shown) = change(call, subresource, &Change::Patch(kind), dry_run).await?;
    respond::object(call.request, &call.resource, code, &shown)
}

/// Returns the kind of patch that the media type names.
pub(crate) fn patch_kind(call: &Call<'_>) -> Result<PatchKind, ApiError> {
    let custom = call.resource.custom().is_some();
    let accepted = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    match call.request.content_type().as_str() {
        "application/json-patch+json" => Ok(PatchKind::Json),
        "application/merge-patch+json" => Ok(PatchKind::Merge),
        "application/strategic-merge-patch+json" if !custom => Ok(PatchKind::Strategic),
        "application/apply-patch+yaml" => Ok(PatchKind::Apply),
        _ if custom => Err(ApiError::unsupported_media_type(accepted)),
        _ => {
            let error = ApiError::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
            Err(error.with_details(Map::new()))
        }
    }
}

pub(crate) fn check_patch_options(call: &Call<'_>, kind: PatchKind) -> Result<(), ApiError> {
    let query = &call.request.query;
    FieldValidation::of(query, "PatchOptions")?;
    let about = StatusDetails { group: "meta.k8s.io", kind: "PatchOptions", name: "" };
    let manager = query.get("fieldManager").unwrap_or_default();
    let mut causes = Vec::new();
    if kind == PatchKind::Apply {
        if manager.is_empty() {
            causes.push(Cause::required("fieldManager", "is required for apply patch"));
        }
    } else if query.get("force").is_some() {
        causes.push(Cause::forbidden("force", "may not be specified for non-apply patch"));
    }
    causes.extend(patching::check_manager(manager));
    causes.extend(query.dry_run_problem());
    if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid(about, &causes)) }
}

/// Changes the object of the path. Returns the HTTP code and the result.
pub(crate) async fn change(
    call: &mut Call<'_>,
    subresource: Option<&str>,
    how: &Change,
    dry_run: bool,
) -> Result<(u16, RequestedObject), ApiError> {
    let mut tries = 0;
    loop {
        let warnings = call.warnings.len();
        match attempt(call, subresource, how, dry_run).await {
            Err(UpdateError::Raced) if tries < MAX_ATTEMPTS => {
                tries += 1;
                // The next attempt warns again.
                call.warnings.truncate(warnings);
            }
            Err(UpdateError::Raced) => {
                let name = call.path.name.as_deref().unwrap_or_default();
                return Err(ApiError::conflict(call.resource.about(name), MODIFIED));
            }
            Err(UpdateError::Refused(error)) => return Err(error),
            Ok(done) => return Ok(done),
        }
    }
}

enum UpdateError {
    /// Another write interfered; the change can be tried again on the new state.
    Raced,
    Refused(ApiError),
}

impl From<ApiError> for UpdateError {
    fn from(error: ApiError) -> Self {
        Self::Refused(error)
    }
}

/// Changes the object once: reads, changes, admits, validates and stores it.
async fn attempt(
    call: &mut Call<'_>,
    subresource: Option<&str>,
    how: &Change,
    dry_run: bool,
) -> Result<(u16, RequestedObject), UpdateError> {
    let resource = Arc::clone(&call.resource);
    let key = call.key();
    let manager = call.request.field_manager();
    let state = Arc::clone(call.state);
    let write = patching::Write {
        registry: &state.registry,
        resource: &resource,
        subresource,
        manager: &manager,
        force: call.request.query.flag("force"),
        now: Timestamp::now(),
    };
    let Some(stored) = call.state.store.get(&resource.table, &key) else {
        return create_instead(call, &write, subresource, how, dry_run).await;
    };
    let live = form::show(call.state, &resource, Arc::clone(&stored)).await?.into_value();
    let mut value = match how {
        Change::Replace(value) => value.clone(),
        Change::Patch(kind) => patched(call, &write, *kind, Some(&live))?,
        Change::Edit(edit, input) => {
            let mut value = live.clone();
            edit(&mut value, input)?;
            value
        }
    };
    check_identity(call, how, &mut value)?;
    let names_revision = check_revision(call, how, &value, &live)?;
    carry_over(&mut value, &live);
    prepare(&resource, subresource, &mut value, &live);
    if !how.is_apply() {
        // fields that webhooks change afterwards have no owner
        patching::track(&write, Some(&live), &mut value);
        limits::refuse_large(&value)?;
    }
    let user = call.request.user.info();
    // kube-apiserver sends UpdateOptions for patches as well
    let options = json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"});
    let options = admit::options(options, &call.request.query, dry_run);
    let review = Review {
        operation: "UPDATE",
        resource: &resource,
        subresource,
        namespace: call.review_namespace(&key.name).map(str::to_owned),
        name: key.name.clone(),
        old: Some(&live),
        options: &options,
        user: &user,
        dry_run,
    };
    let mut value = admit::mutate(call.state, &review, value, &mut call.warnings).await?;
    create::check_namespace(call, &mut value)?;
    if subresource.is_none() {
        // After the webhooks, so that no webhook grants rights that the user lacks.
        rbac::escalation::check(&call.state.store, &call.request.user, &resource, &value, Some(&live))?;
    }
    // Once more, because a webhook may have changed fields that the write must not change.
    prepare(&resource, subresource, &mut value, &live);
    let services = allocation::allocate(call.state, &resource, &mut value, Some(&live))?;
    strategy::bump_generation(&resource, subresource, &mut value, &live);
    patching::keep_times(&live, &mut value);
    validate(call, subresource, &key.name, &value, Some(&live))?;
    admit::validate(call.state, &review, Some(&value), &mut call.warnings).await?;
    if value == live {
        return Ok((200, form::show(call.state, &resource, stored).await?));
    }
    if dry_run {
        return Ok((200, RequestedObject::new(value)));
    }
    Ok((200, store(call, stored, value, services, names_revision).await?))
}

/// Resets the fields that a write to this subresource, or to the object itself, must not change.
fn prepare(resource: &Resource, subresource: Option<&str>, value: &mut Value, live: &Value) {
    match subresource {
        Some(subresource) => strategy::prepare_subresource(resource, subresource, value, live),
        None => strategy::prepare_update(resource, value, live),
    }
}

/// Stores the changed object, or removes it if it was only waiting for its finalizers.
async fn store(
    call: &Call<'_>,
    stored: Arc<StoredObject>,
    value: Value,
    services: Allocation,
    names_revision: bool,
) -> Result<RequestedObject, UpdateError> {
    let (resource, key, revision) = (&call.resource, call.key(), stored.revision);
    let raced = |error: WriteError| match error {
        WriteError::Changed | WriteError::Missing if names_revision => {
            UpdateError::Refused(ApiError::conflict(resource.about(&call.key().name), MODIFIED))
        }
        WriteError::Changed | WriteError::Missing => UpdateError::Raced,
        other => UpdateError::Refused(ApiError::internal(other.to_string())),
    };
    if is_finished(&value) {
        call.state.store.delete(&resource.table, key, revision).map_err(raced)?;
        services.keep();
        effects::after_write(call.state, resource, Some(&stored.value), None);
        return Ok(RequestedObject::new(value));
    }
    let target = form::to_storage(call.state, resource, value).await?;
    let written = call.state.store.update(&resource.table, key, revision, target).map_err(raced)?;
    services.keep();
    effects::after_write(call.state, resource, Some(&stored.value), Some(&written.value));
    Ok(form::show(call.state, resource, written).await?)
}

/// Handles PUT and apply for an object that does not exist. An apply creates it; a PUT creates it for a few kinds.
async fn create_instead(
    call: &mut Call<'_>,
    write: &patching::Write<'_>,
    subresource: Option<&str>,
    how: &Change,
    dry_run: bool,
) -> Result<(u16, RequestedObject), UpdateError> {
    if subresource.is_some() {
        return Err(call.not_found().into());
    }
    match how {
        Change::Patch(kind @ PatchKind::Apply) => {
            let mut value = patched(call, write, *kind, None)?;
            check_identity(call, how, &mut value)?;
            if let Some(uid) = value["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty()) {
                let name = call.path.name.as_deref().unwrap_or_default();
                let why = format!(
                    "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                );
                return Err(UpdateError::Refused(ApiError::conflict(call.resource.about(name), why)));
            }
            strategy::put(&mut value["metadata"], "resourceVersion", None);
            Ok((201, create::object(call, value, dry_run, false).await?))
        }
        Change::Replace(value) if call.resource.strategy().creates_on_update() => {
            let mut value = value.clone();
            check_identity(call, how, &mut value)?;
            strategy::put(&mut value["metadata"], "resourceVersion", None);
            Ok((201, create::object(call, value, dry_run, true).await?))
        }
        _ => Err(call.not_found().into()),
    }
}

fn patched(
    call: &mut Call<'_>,
    write: &patching::Write<'_>,
    kind: PatchKind,
    live: Option<&Value>,
) -> Result<Value, ApiError> {
    let validation = FieldValidation::of(&call.request.query, "PatchOptions")?;
    let patched = patching::patch(write, kind, &call.request.body, live)?;
    let patch_shown = patched.shown;
    let mut value = patched.object;
    let resource = write.resource;
    limits::refuse_deep(resource, &value)?;
    let mistyped = match resource.custom() {
        Some(custom) if kind == PatchKind::Apply => custom.schema.coerce_applied_metadata(&mut value),
        Some(custom) => custom.schema.coerce_metadata(&mut value),
        None => strategy::fields::mistyped_builtin_field(resource, &value),
    };
    let mut problems = patched.field_problems;
    let unknown = strategy::prune(resource, &mut value);
    problems.extend(unknown.into_iter().map(|path| format!("unknown field \"{path}\"")));
    if let Some(why) = mistyped {
        return Err(refuse_patch(&patch_shown, &why));
    }
    validation.report(problems, &mut call.warnings).map_err(|why| refuse_patch(&patch_shown, &why))?;
    match resource.custom() {
        // an applied object keeps its nulls, so that validation sees them
        Some(custom) if kind == PatchKind::Apply => custom.schema.fill_in(&mut value),
        _ => strategy::default(resource, &mut value),
    }
    limits::refuse_large(&value)?;
    Ok(value)
}
