//! DELETE of an object or of a collection.

mod options;

use std::sync::Arc;

use jiff::{Timestamp, ToSpan};
use serde_json::Value;

pub(crate) use self::options::Options;
use super::{Call, crds, read, success, update::MODIFIED};
use crate::{
    admit,
    answer::Answer,
    clock,
    deletion::{FOREGROUND, ORPHAN},
    effects, form,
    form::RequestedObject,
    kinds::Resource,
    respond::{self, Listing},
    review::Review,
    status::{ApiError, StatusDetails},
    store::{Key, StoredObject, WriteError},
    strategy,
};

/// How many times to try a deletion when other writes interfere.
const MAX_ATTEMPTS: usize = 10;

/// `DELETE …/<name>`.
pub(crate) async fn delete(call: &mut Call<'_>) -> Result<Answer, ApiError> {
    let options = options::read(call)?;
    let done = object(call, &call.key(), &options).await?;
    match done {
        DeletionOutcome::Shown(shown) => respond::object(call.request, &call.resource, 200, &shown),
        DeletionOutcome::Gone { name, uid } => {
            Ok(respond::document(call.request, 200, &success(&call.resource, &name, &uid)))
        }
    }
}

/// `DELETE …/<plural>`.
pub(crate) async fn collection(call: &mut Call<'_>) -> Result<Answer, ApiError> {
    let options = options::read(call)?;
    let limit = call.request.query.number("limit")?.and_then(|limit| usize::try_from(limit).ok());
    call.request.query.number("timeoutSeconds")?;
    let continues = call.request.query.get("continue").filter(|token| !token.is_empty());
    let selector = read::selector(call, continues.is_some(), false)?;
    if let Some(token) = continues {
        read::check_token(token)?;
    }
    if let Some(text) = call.request.query.get("resourceVersion").filter(|text| !text.is_empty()) {
        let refuse = |error| ApiError::bad_request(format!("invalid resource version: {error}"));
        let asked = read::parse_revision(text).map_err(refuse)?;
        read::check_reached(asked, call.state.store.revision())?;
    }
    let snapshot = call.state.store.list(&call.resource.table, call.path.namespace.as_deref());
    let limit = limit.filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    let mut chosen: Vec<(Key, Arc<StoredObject>)> = Vec::new();
    let mut remaining = None;
    for (index, (key, stored)) in snapshot.objects.iter().enumerate() {
        if chosen.len() == limit {
            remaining = Some(snapshot.objects.len() - index);
            break;
        }
        if selector.matches(&stored.for_reader().value) {
            chosen.push((key.clone(), Arc::clone(stored)));
        }
    }
    for (key, _) in &chosen {
        match object(call, key, &options).await {
            Err(error) if error.code == 404 => {}
            other => {
                other?;
            }
        }
    }
    // the answer shows the objects as they were before, with a continue token
    let last = chosen.last().filter(|_| remaining.is_some()).map(|(key, _)| key.clone());
    let stored = chosen.into_iter().map(|(_, stored)| stored).collect();
    let listing = Listing {
        revision: call.state.store.revision(),
        items: form::show_all(call.state, &call.resource, stored).await?,
        continues: last.map(|last| read::continue_after(snapshot.revision, last)),
        remaining: remaining.filter(|_| selector.selects_all()),
    };
    respond::list(call.request, &call.resource, listing)
}

/// The result of a deletion.
pub(crate) enum DeletionOutcome {
    /// The object: either it still exists, or this is its last state.
    Shown(RequestedObject),
    /// The object is gone, and the answer only names it.
    Gone { name: String, uid: Value },
}

/// Deletes one object.
pub(crate) async fn object(
    call: &mut Call<'_>,
    key: &Key,
    options: &Options,
) -> Result<DeletionOutcome, ApiError> {
    let resource = Arc::clone(&call.resource);
    let warnings = call.warnings.len();
    for _ in 0..MAX_ATTEMPTS {
        // Each attempt asks the webhooks anew, and they warn again.
        call.warnings.truncate(warnings);
        let Some(stored) = call.state.store.get(&resource.table, key) else {
            return Err(ApiError::not_found(resource.about(&key.name)));
        };
        check_preconditions(call, options, &stored)?;
        effects::check_deletion(&resource, &key.name)?;
        let live = form::show(call.state, &resource, Arc::clone(&stored)).await?.into_value();
        let user = call.request.user.info();
        let review_options = options::for_review(call, options);
        let review = Review {
            operation: "DELETE",
            resource: &resource,
            subresource: None,
            namespace: if key.namespace.is_empty() {
                call.review_namespace(&key.name).map(str::to_owned)
            } else {
                Some(key.namespace.clone())
            },
            // empty if a collection is deleted
            name: call.path.name.clone().unwrap_or_default(),
            old: Some(&live),
            options: &review_options,
            user: &user,
            dry_run: options.is_dry_run(),
        };
        admit::mutate_deletion(call.state, &review, &mut call.warnings).await?;
        admit::validate(call.state, &review, None, &mut call.warnings).await?;
        let plan = plan(call, &stored.value, options);
        let result = match &plan {
            Plan::Keep(value) if *value == *stored.value => Ok(None),
            Plan::Keep(_) | Plan::Remove(_) if options.is_dry_run() => Ok(None),
            Plan::Keep(value) => call
                .state
                .store
                .update(&resource.table, key.clone(), stored.revision, value.clone())
                .map(Some),
            Plan::Remove(value) => remove(call, key, &stored, value).map(Some),
        };
        match result {
            Ok(written) => {
                let gone = matches!(plan, Plan::Remove(_));
                if let Some(written) = &written {
                    effects::after_write(
                        call.state,
                        &resource,
                        Some(&stored.value),
                        (!gone).then_some(&written.value),
                    );
                }
                return finish(call, &stored, written, plan).await;
            }
            Err(WriteError::Changed) if options.resource_version().is_none() => {}
            Err(WriteError::Changed) => break,
            Err(WriteError::Missing) => return Err(ApiError::not_found(resource.about(&key.name))),
            Err(error) => return Err(ApiError::internal(error.to_string())),
        }
    }
    Err(ApiError::conflict(resource.about(&key.name), MODIFIED))
}

/// Removes an object. If `last` differs from the stored object, writes `last` first, so that watches see both changes.
fn remove(
    call: &Call<'_>,
    key: &Key,
    stored: &Arc<StoredObject>,
    last: &Value,
) -> Result<Arc<StoredObject>, WriteError> {
    let table = &call.resource.table;
    let store = &call.state.store;
    // Two revisions: if another write comes between them, the caller begins again.
    let mut revision = stored.revision;
    if *last != *stored.value {
        revision = store.update(table, key.clone(), revision, last.clone())?.revision;
    }
    store.delete(table, key.clone(), revision)
}

enum Plan {
    /// The object is marked for deletion and stays.
    Keep(Value),
    /// The object is removed.
    Remove(Value),
}

async fn finish(
    call: &Call<'_>,
    stored: &Arc<StoredObject>,
    written: Option<Arc<StoredObject>>,
    plan: Plan,
) -> Result<DeletionOutcome, ApiError> {
    let resource = &call.resource;
    match plan {
        Plan::Keep(value) => {
            let shown = match written {
                Some(written) => form::show(call.state, resource, written).await?,
                None if value == *stored.value => {
                    form::show(call.state, resource, Arc::clone(stored)).await?
                }
                None => RequestedObject::new(value),
            };
            Ok(DeletionOutcome::Shown(shown))
        }
        Plan::Remove(mut value) => {
            if resource.strategy().returns_deleted_object() {
                value["metadata"]["resourceVersion"] = match &written {
                    Some(written) => written.value["metadata"]["resourceVersion"].clone(),
                    None => stored.value["metadata"]["resourceVersion"].clone(),
                };
                return Ok(DeletionOutcome::Shown(RequestedObject::new(value)));
            }
            let metadata = &stored.value["metadata"];
            Ok(DeletionOutcome::Gone {
                name: metadata["name"].as_str().unwrap_or_default().to_owned(),
                uid: metadata["uid"].clone(),
            })
        }
    }
}

/// Decides what the options and the object's finalizers mean for the deletion.
fn plan(call: &Call<'_>, stored: &Value, options: &Options) -> Plan {
    let resource = &call.resource;
    let mut value = stored.clone();
    let mut finalizers: Vec<String> = value["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    let (orphan, foreground) = options.propagation(&finalizers);
    finalizers.retain(|f| f != ORPHAN && f != FOREGROUND);
    if orphan {
        finalizers.push(ORPHAN.to_owned());
    }
    if foreground {
        finalizers.push(FOREGROUND.to_owned());
    }
    let kept = (!finalizers.is_empty()).then(|| finalizers.clone().into());
    strategy::put(&mut value["metadata"], "finalizers", kept);
    let pending = stored["metadata"]["deletionTimestamp"].is_string();
    let held = !finalizers.is_empty() || resource.strategy().delays_deletion(&value);
    let grace = resource.strategy().grace_period_seconds(stored, options.grace_period_seconds());
    if pending {
        let old = stored["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
        // A shorter period counts from the start of the deletion.
        if grace < old {
            shorten(&mut value, old, grace);
        }
        return if grace > 0 || held { Plan::Keep(value) } else { Plan::Remove(value) };
    }
    if resource.group == "apiextensions.k8s.io" {
        crds::mark_deleted(&mut value);
        return Plan::Keep(value);
    }
    if !held && grace == 0 {
        if resource.group.is_empty() && resource.plural == "pods" {
            mark(&mut value, 0);
            strategy::bump_for_deletion(&mut value);
        }
        return Plan::Remove(value);
    }
    mark(&mut value, grace);
    resource.strategy().terminate(&mut value);
    strategy::bump_for_deletion(&mut value);
    Plan::Keep(value)
}

fn mark(value: &mut Value, grace: i64) {
    let at = Timestamp::now().saturating_add(grace.seconds()).unwrap_or_else(|_| Timestamp::now());
    value["metadata"]["deletionTimestamp"] = Value::from(clock::seconds(at));
    value["metadata"]["deletionGracePeriodSeconds"] = Value::from(grace);
}

fn shorten(value: &mut Value, old: i64, new: i64) {
    let end: Option<Timestamp> =
        value["metadata"]["deletionTimestamp"].as_str().and_then(|text| text.parse().ok());
    if let Some(end) = end {
        let moved = end.saturating_sub((old - new).seconds()).unwrap_or(end);
        value["metadata"]["deletionTimestamp"] = Value::from(clock::seconds(moved));
    }
    value["metadata"]["deletionGracePeriodSeconds"] = Value::from(new);
}

/// Returns an error unless the object is the one that the options name.
pub(crate) fn check_preconditions(
    call: &Call<'_>,
    options: &Options,
    stored: &StoredObject,
) -> Result<(), ApiError> {
    let metadata = &stored.value["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    // Unlike other errors, these have the kind in the place of the resource.
    let Resource { group, kind, .. } = &*call.resource;
    let conflict = |why: String| Err(ApiError::conflict(StatusDetails { group, kind, name }, why));
    let found = metadata["uid"].as_str().unwrap_or_default();
    if let Some(uid) = options.uid()
        && uid != found
    {
        return conflict(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({found}). The object might have \
             been deleted and then recreated"
        ));
    }
    let found = stored.revision.to_string();
    if let Some(revision) = options.resource_version()
        && revision != found
    {
        return conflict(format!(
            "the ResourceVersion in the precondition ({revision}) does not match the ResourceVersion in record \
             ({found}). The object might have been modified"
        ));
    }
    Ok(())
}
