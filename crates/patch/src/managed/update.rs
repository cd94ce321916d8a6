//! Ownership after a create, an update or a patch other than apply.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::fields::Set;

use super::{
    ManagedError, Versions, Write,
    entries::{self, Manager, OwnedFields, Ownership},
    updater::{VersionedObject, reconcile, strip, take_over},
};

/// The most update managers of an object. Beyond that, the oldest are merged into one.
const MAX_UPDATE_MANAGERS: usize = 10;
/// The manager into which they are merged.
const ANCIENT: &str = "ancient-changes";

/// Updates `managedFields` of `new`: the manager of the write becomes the owner of everything that differs from `live`.
///
/// For a create, `live` is `None`. Both objects are in `write.api_version`. A reset (`[]` or `[{}]`) works only in a request
/// to the object itself. If the ownership cannot be determined, the object gets no entries rather than wrong ones, as in
/// kube-apiserver.
pub fn update(write: &Write<'_>, versions: &dyn Versions, live: Option<&Value>, new: &mut Value) {
    let empty = empty_object(write);
    let live = live.unwrap_or(&empty);
    let owners = entries_to_start_from(live, new, !write.subresource.is_empty());
    let owners =
        tracked(write, versions, entries::without_entries(live), entries::without_entries(new), owners)
            .unwrap_or_default();
    entries::encode(new, &owners);
}

/// An object that has only a type.
pub(super) fn empty_object(write: &Write<'_>) -> Value {
    json!({ "apiVersion": write.api_version, "kind": write.kind })
}

/// The entries in the request, or the live entries if the request has none or invalid ones.
fn entries_to_start_from(live: &Value, new: &Value, of_subresource: bool) -> Ownership {
    let of_live = || entries::decode(live).unwrap_or_default();
    if of_subresource {
        return of_live();
    }
    if entries::is_reset(new.pointer("/metadata/managedFields")) {
        return Ownership::new();
    }
    match entries::decode(new) {
        Ok(owners) if !owners.is_empty() => owners,
        _ => of_live(),
    }
}

fn tracked(
    write: &Write<'_>,
    versions: &dyn Versions,
    live: Value,
    new: Value,
    owners: Ownership,
) -> Result<Ownership, ManagedError> {
    // If the tracking of an object was reset, it is not tracked until the next apply.
    let exists = live.pointer("/metadata/uid").and_then(Value::as_str).is_some_and(|uid| !uid.is_empty());
    if owners.is_empty() && exists {
        return Ok(owners);
    }
    let mut owners = owned_by_update(write, versions, live, new, owners, write.manager)?;
    cap(&mut owners);
    Ok(owners)
}

/// The ownership after `manager` changed `live` into `new`.
pub(super) fn owned_by_update(
    write: &Write<'_>,
    versions: &dyn Versions,
    live: Value,
    new: Value,
    owners: Ownership,
    manager: &str,
) -> Result<Ownership, ManagedError> {
    let failed = |error: crate::typed::SchemaError| ManagedError::Failed(error.to_string());
    let node = versions
        .schema(write.api_version)
        .ok_or_else(|| ManagedError::Failed(format!("no schema for {}", write.api_version)))?;
    let new = VersionedObject::new(new, write.api_version, node).map_err(failed)?;
    let live = VersionedObject::new(live, write.api_version, node).map_err(failed)?;
    let mut owners = reconcile(&live, owners, versions)?;
    let nobody = Manager::default();
    let changed = take_over(&live, &new, &mut owners, versions, &nobody, true, write.ignored)?;
    let mut set = changed.modified.union(&changed.added);
    if let Some(ignored) = write.ignored {
        set = set.recursive_difference(ignored);
    }
    let set = strip(&set);
    if !set.is_empty() {
        let manager = Manager {
            name: if manager.is_empty() { "unknown".to_owned() } else { manager.to_owned() },
            operation: "Update".to_owned(),
            api_version: write.api_version.to_owned(),
            subresource: write.subresource.to_owned(),
            time: None,
        };
        let before = owners.get(&manager).map_or_else(Set::default, |owned| owned.set.clone());
        let owned = OwnedFields {
            set: set.union(&before),
            api_version: write.api_version.to_owned(),
            applied: false,
            time: Some(write.now.to_owned()),
        };
        owners.insert(manager, owned);
    }
    Ok(owners)
}

/// Merges the oldest update entries if there are too many.
fn cap(owners: &mut Ownership) {
    let mut updaters: Vec<Manager> =
        owners.iter().filter(|(_, owned)| !owned.applied).map(|(manager, _)| manager.clone()).collect();
    let mut left = updaters.len();
    if left <= MAX_UPDATE_MANAGERS {
        return;
    }
    updaters.sort_by_cached_key(|manager| {
        (owners.get(manager).and_then(|owned| owned.time.clone()), manager.clone())
    });
    let mut first_of: BTreeMap<String, Manager> = BTreeMap::new();
    for manager in updaters {
        if left <= MAX_UPDATE_MANAGERS {
            break;
        }
        let Some(owned) = owners.get(&manager).cloned() else { continue };
        let Some(first) = first_of.get(&owned.api_version) else {
            first_of.insert(owned.api_version.clone(), manager);
            continue;
        };
        let bucket = Manager {
            name: ANCIENT.to_owned(),
            operation: "Update".to_owned(),
            api_version: owned.api_version.clone(),
            ..Manager::default()
        };
        if !owners.contains_key(&bucket)
            && let Some(oldest) = owners.remove(first)
        {
            owners.insert(bucket.clone(), oldest);
        }
        let before = owners.get(&bucket).map_or_else(Set::default, |bucket| bucket.set.clone());
        owners.remove(&manager);
        owners.insert(bucket, OwnedFields { set: owned.set.union(&before), ..owned });
        left -= 1;
    }
}
