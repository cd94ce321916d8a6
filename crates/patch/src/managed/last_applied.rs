//! Migrates from client-side to server-side apply: an apply may take over the fields that kubectl recorded as last applied.

use longboat_types::LAST_APPLIED;
use serde_json::{Value, json};

use crate::{fields::Set, typed};

use super::{Conflicts, ManagedError, Versions, Write, updater::VersionedObject};

/// The manager to which these rules apply.
pub(super) const KUBECTL: &str = "kubectl";

/// Succeeds if the last client-side apply explains all conflicts. Otherwise fails with those that it does not explain.
pub(super) fn unexplained_conflicts(
    write: &Write<'_>,
    versions: &dyn Versions,
    live: &Value,
    conflicts: Conflicts,
) -> Result<(), ManagedError> {
    let Some(allowed) = unchanged_since(write, versions, live) else {
        return Err(ManagedError::Conflict(conflicts));
    };
    let left: Vec<_> = conflicts.0.into_iter().filter(|conflict| !allowed.has(&conflict.path.0)).collect();
    if left.is_empty() { Ok(()) } else { Err(ManagedError::Conflict(Conflicts(left))) }
}

/// The fields of the last applied configuration that the live object still has with the same values.
fn unchanged_since(write: &Write<'_>, versions: &dyn Versions, live: &Value) -> Option<Set> {
    let text = annotation(live)?;
    let node = versions.schema(write.api_version)?;
    let live = VersionedObject::new(live.clone(), write.api_version, node).ok()?;
    let last: Value = serde_json::from_str(text).ok()?;
    if last["apiVersion"] != write.api_version || typed::validate(&last, node, false).is_err() {
        return None;
    }
    let changed = typed::compare(&last, &live.value, node);
    Some(
        typed::field_set(&last, node)
            .difference(&changed.modified)
            .difference(&changed.added)
            .difference(&changed.removed),
    )
}

fn annotation(object: &Value) -> Option<&str> {
    object.pointer("/metadata/annotations")?.get(LAST_APPLIED)?.as_str().filter(|text| !text.is_empty())
}

/// Updates the annotation, if the object still has it, so that client-side apply keeps working.
pub(super) fn refresh(object: &mut Value, config: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(Value::Object(annotations)) = config.pointer_mut("/metadata/annotations") {
        annotations.remove(LAST_APPLIED);
    }
    if let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") {
        annotations.insert(LAST_APPLIED.to_owned(), json!(format!("{config}\n")));
    }
}
