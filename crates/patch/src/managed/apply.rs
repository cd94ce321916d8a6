//! Server-side apply.

use std::{collections::BTreeMap, sync::Arc};

use longboat_types::Shape;
use serde_json::Value;

use crate::{
    fields::Set,
    schema::{Node, Scalar},
    typed::{self, with_named_members},
};

use super::{
    ManagedError, Versions, Write,
    entries::{self, Manager, OwnedFields, Ownership},
    last_applied, update,
    updater::{VersionedObject, reconcile, strip, take_over},
};

/// The manager of fields that existed before ownership was tracked.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Applies `config` to `live`, both in `write.api_version`. `live` is `None` if the object does not exist yet. Returns the
/// object with its `managedFields`; not defaulted yet. If no field of the live object changed, entries keep their times.
pub fn apply(
    write: &Write<'_>,
    versions: &dyn Versions,
    live: Option<&Value>,
    config: &Value,
) -> Result<Value, ManagedError> {
    check_type(write, config)?;
    let empty = update::empty_object(write);
    let live = live.unwrap_or(&empty);
    let mut owners = entries::decode(live)
        .map_err(|error| ManagedError::Failed(format!("failed to decode managed fields: {error}")))?;
    let live = entries::without_entries(live);
    if owners.is_empty() {
        owners =
            update::owned_by_update(write, versions, empty.clone(), live.clone(), owners, BEFORE_FIRST_APPLY)
                .map_err(|error| {
                    ManagedError::Failed(format!("failed to create manager for existing fields: {error}"))
                })?;
    }
    // The owners are kept for a second attempt, which kubectl may make by force.
    let first = merged(write, versions, &live, config, owners.clone());
    let result = match first {
        Err(ManagedError::Conflict(conflicts)) if write.manager == last_applied::KUBECTL => {
            last_applied::unexplained_conflicts(write, versions, &live, conflicts)?;
            merged(&Write { force: true, ..*write }, versions, &live, config, owners)
        }
        other => other,
    };
    let (object, owners) = result?;
    let mut object = object.unwrap_or(live);
    if write.manager == last_applied::KUBECTL {
        last_applied::refresh(&mut object, config);
    }
    entries::encode(&mut object, &owners);
    Ok(object)
}

fn check_type(write: &Write<'_>, config: &Value) -> Result<(), ManagedError> {
    let api_version = config["apiVersion"].as_str().unwrap_or_default();
    let kind = config["kind"].as_str().unwrap_or_default();
    if api_version != write.api_version || kind != write.kind {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        return Err(ManagedError::BadRequest(format!("invalid object type: {group}/{version}, Kind={kind}")));
    }
    if !config.pointer("/metadata/managedFields").is_none_or(Value::is_null) {
        return Err(ManagedError::BadRequest("metadata.managedFields must be nil".to_owned()));
    }
    Ok(())
}

/// Formats the identity of an object for an error: `NAMESPACE/NAME; GROUP/VERSION, Kind=KIND`.
fn named(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let api_version = text("/apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    format!(
        "{}/{}; {group}/{version}, Kind={}",
        text("/metadata/namespace"),
        text("/metadata/name"),
        text("/kind")
    )
}

/// Returns the merged object (`None` if nothing changed), and the ownership of its fields.
fn merged(
    write: &Write<'_>,
    versions: &dyn Versions,
    live: &Value,
    config: &Value,
    owners: Ownership,
) -> Result<(Option<Value>, Ownership), ManagedError> {
    let node = versions
        .schema(write.api_version)
        .ok_or_else(|| ManagedError::Failed(format!("no schema for {}", write.api_version)))?;
    typed::validate(config, node, false).map_err(|error| {
        ManagedError::Failed(format!("failed to create typed patch object ({}): {error}", named(config)))
    })?;
    let live_seen = VersionedObject::new(live.clone(), write.api_version, node).map_err(|error| {
        ManagedError::Failed(format!("failed to create typed live object ({}): {error}", named(live)))
    })?;
    let mut owners = reconcile(&live_seen, owners, versions)?;
    let merged = typed::merge(&live_seen.value, config, node)
        .map_err(|error| ManagedError::Failed(format!("failed to merge config: {error}")))?;

    let me = Manager {
        name: write.manager.to_owned(),
        operation: "Apply".to_owned(),
        api_version: String::new(),
        subresource: write.subresource.to_owned(),
        time: None,
    };
    let mut set = typed::field_set(config, node);
    if let Some(ignored) = write.ignored {
        set = set.recursive_difference(ignored);
    }
    let last = owners.get(&me).cloned();
    let time = last.as_ref().and_then(|last| last.time.clone());
    let owned = OwnedFields { set, api_version: write.api_version.to_owned(), applied: true, time };
    owners.insert(me.clone(), owned);

    let merged = live_seen.with(merged);
    let new = match last.filter(|last| !last.set.is_empty()) {
        Some(last) => prune(&merged, &owners, &me, &last, versions)?,
        None => merged,
    };
    take_over(&live_seen, &new, &mut owners, versions, &me, write.force, write.ignored)?;
    if let Some(owned) = owners.get_mut(&me) {
        owned.set = strip(&owned.set);
        if owned.set.is_empty() {
            owners.remove(&me);
        }
    }
    let unchanged = typed::compare(&live_seen.value, &new.value, node) == typed::Comparison::default()
        && live_seen.value == new.value;
    if unchanged {
        return Ok((None, owners));
    }
    if let Some(owned) = owners.get_mut(&me) {
        owned.time = Some(write.now.to_owned());
    }
    let mut value = Arc::unwrap_or_clone(new.value);
    if matches!(node, Node::Type(_)) {
        drop_nulls(&mut value, Some(node));
    }
    Ok((Some(value), owners))
}

/// Nulls of built-in kinds are zero values: of fields they are not stored, in maps they are empty texts and no amounts.
fn drop_nulls(value: &mut Value, node: Option<Node<'_>>) {
    let atom = node.map(Node::atom);
    match value {
        Value::Object(map) => {
            let place = atom.and_then(|atom| atom.map);
            map.retain(|name, inner| {
                let below = place.as_ref().and_then(|place| place.entry(name));
                if inner.is_null() {
                    let is_declared = place.as_ref().is_some_and(|place| place.field(name).is_some());
                    let zero = match below {
                        Some(Node::Shape(Shape::Quantity)) => "0",
                        Some(below) if below.atom().scalar == Some(Scalar::String) => "",
                        _ => return false,
                    };
                    if is_declared {
                        return false;
                    }
                    *inner = Value::from(zero);
                }
                drop_nulls(inner, below);
                true
            });
        }
        Value::Array(list) => {
            let element = atom.and_then(|atom| atom.list).map(|list| list.element);
            for item in list {
                drop_nulls(item, element);
            }
        }
        _ => {}
    }
}

/// Removes the fields that the manager applied last time and no longer applies, unless somebody else owns them.
fn prune<'a>(
    merged: &VersionedObject<'a>,
    owners: &Ownership,
    me: &Manager,
    last: &OwnedFields,
    versions: &'a dyn Versions,
) -> Result<VersionedObject<'a>, ManagedError> {
    let Some(merged_then) = merged.convert(versions, &last.api_version)? else {
        return Ok(merged.clone());
    };
    let last_set = with_named_members(&last.set, Some(merged_then.node));
    let pruned = merged_then.with(typed::remove(&merged_then.value, &last_set, merged_then.node));
    let pruned = add_back_owned(&merged_then, pruned, &last.api_version, owners, versions)?;

    // Only fields that this manager applied may be removed. Fields without an owner stay.
    let Some(pruned) = pruned.convert(versions, &last.api_version)? else {
        return Ok(merged.clone());
    };
    let of_pruned = named_set(&pruned);
    let of_merged = named_set(&merged_then);
    let gone = of_merged.difference(&of_pruned).intersection(&last_set);
    let result = merged_then.with(typed::remove(&merged_then.value, &gone, merged_then.node));
    let to = owners.get(me).map_or(merged.api_version.as_str(), |owned| owned.api_version.as_str());
    Ok(result.convert(versions, to)?.unwrap_or_else(|| merged.clone()))
}

fn named_set(seen: &VersionedObject<'_>) -> Set {
    with_named_members(&typed::field_set(&seen.value, seen.node), Some(seen.node))
}

/// Restores removed fields that somebody owns, version by version. The version of the pruned object comes first.
fn add_back_owned<'a>(
    merged: &VersionedObject<'a>,
    pruned: VersionedObject<'a>,
    pruned_version: &str,
    owners: &Ownership,
    versions: &'a dyn Versions,
) -> Result<VersionedObject<'a>, ManagedError> {
    let mut by_version: BTreeMap<&str, Set> = BTreeMap::new();
    for owned in owners.values() {
        by_version.entry(&owned.api_version).or_default().extend(&owned.set);
    }
    let first = by_version.remove_entry(pruned_version);
    let (mut merged, mut pruned) = (merged.clone(), pruned);
    for (version, owned) in first.into_iter().chain(by_version) {
        let (Some(merged_now), Some(pruned_now)) =
            (merged.convert(versions, version)?, pruned.convert(versions, version)?)
        else {
            continue;
        };
        let keep = named_set(&pruned_now).union(&with_named_members(&owned, Some(merged_now.node)));
        let gone = named_set(&merged_now).difference(&keep);
        pruned = merged_now.with(typed::remove(&merged_now.value, &gone, merged_now.node));
        merged = merged_now;
    }
    Ok(pruned)
}
