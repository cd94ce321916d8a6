//! Moves the ownership of changed fields to the manager that changed them.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use crate::{
    fields::Set,
    schema::Node,
    typed::{self, Comparison},
};

use super::{
    ManagedError, Versions, conflict,
    entries::{Manager, OwnedFields, Ownership},
};

/// An object in a version, with its schema. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct VersionedObject<'a> {
    pub(super) value: Arc<Value>,
    pub(super) api_version: String,
    pub(super) node: Node<'a>,
}

impl<'a> VersionedObject<'a> {
    /// Combines an object with its schema. Objects of built-in kinds get the zero values that Go always writes.
    pub(super) fn new(
        mut value: Value,
        api_version: &str,
        node: Node<'a>,
    ) -> Result<Self, typed::SchemaError> {
        if let Node::Type(def) = node {
            typed::inflate(&mut value, def);
        }
        typed::validate(&value, node, true)?;
        Ok(Self { value: Arc::new(value), api_version: api_version.to_owned(), node })
    }

    /// Converts the object to another version. Returns `None` if the version is no longer served.
    pub(super) fn convert(&self, versions: &'a dyn Versions, to: &str) -> Result<Option<Self>, ManagedError> {
        if to == self.api_version {
            return Ok(Some(self.clone()));
        }
        let Some(node) = versions.schema(to) else { return Ok(None) };
        let value = versions.convert(&self.value, to).map_err(ManagedError::Failed)?;
        Self::new(value, to, node).map(Some).map_err(|error| ManagedError::Failed(error.to_string()))
    }

    /// The same object with another value.
    pub(super) fn with(&self, value: Value) -> Self {
        Self { value: Arc::new(value), ..self.clone() }
    }
}

/// Migrates field sets that were recorded with an older schema. Drops entries of versions that are no longer served.
pub(super) fn reconcile(
    live: &VersionedObject<'_>,
    owners: Ownership,
    versions: &dyn Versions,
) -> Result<Ownership, ManagedError> {
    let mut result = Ownership::new();
    // Many managers may name one version, and a conversion copies the object.
    let mut nodes: BTreeMap<String, Option<Node<'_>>> = BTreeMap::new();
    for (manager, mut owned) in owners {
        if !nodes.contains_key(&owned.api_version) {
            let node = live.convert(versions, &owned.api_version)?.map(|seen| seen.node);
            nodes.insert(owned.api_version.clone(), node);
        }
        if let Some(Some(node)) = nodes.get(&owned.api_version) {
            if let Some(set) = typed::reconcile(&owned.set, *node) {
                owned.set = set;
            }
            result.insert(manager, owned);
        }
    }
    Ok(result)
}

/// What a change takes from other owners. It may be large, so it is computed once for all managers of a version.
struct LostFields {
    overwritten: Set,
    removed: Set,
}

impl LostFields {
    fn of(changes: &Comparison) -> Self {
        Self { overwritten: changes.modified.union(&changes.added), removed: changes.removed.clone() }
    }
}

/// Removes the changed fields from other owners, and returns what changed. Returns `Err` with the conflicts unless `force` is
/// set.
pub(super) fn take_over(
    old: &VersionedObject<'_>,
    new: &VersionedObject<'_>,
    owners: &mut Ownership,
    versions: &dyn Versions,
    except: &Manager,
    force: bool,
    ignored: Option<&Set>,
) -> Result<Comparison, ManagedError> {
    let mut changed = typed::compare(&old.value, &new.value, old.node);
    if let Some(ignored) = ignored {
        changed = changed.without(ignored);
    }
    let mut by_version: BTreeMap<String, Option<LostFields>> = BTreeMap::new();
    by_version.insert(old.api_version.clone(), Some(LostFields::of(&changed)));

    let mut conflicts = Ownership::new();
    let mut gone = Vec::new();
    for (manager, owned) in owners.iter() {
        if manager == except {
            continue;
        }
        if !by_version.contains_key(&owned.api_version) {
            let both =
                (old.convert(versions, &owned.api_version)?, new.convert(versions, &owned.api_version)?);
            let lost = both
                .0
                .zip(both.1)
                .map(|(old, new)| LostFields::of(&typed::compare(&old.value, &new.value, old.node)));
            by_version.insert(owned.api_version.clone(), lost);
        }
        let Some(Some(lost)) = by_version.get(&owned.api_version) else {
            gone.push(manager.clone());
            continue;
        };
        let taken = owned.set.intersection(&lost.overwritten);
        if !taken.is_empty() {
            conflicts.insert(manager.clone(), OwnedFields { set: taken, ..owned.clone() });
        }
    }
    // Before any owner changes: an apply that is refused takes nothing from anybody.
    if !force && !conflicts.is_empty() {
        return Err(ManagedError::Conflict(conflict::of(&conflicts)));
    }
    for manager in gone {
        owners.remove(&manager);
    }
    for (manager, owned) in owners.iter_mut().filter(|(manager, _)| *manager != except) {
        let Some(Some(lost)) = by_version.get(&owned.api_version) else { continue };
        if conflicts.contains_key(manager) {
            owned.set = owned.set.difference(&lost.overwritten);
        }
        if !lost.removed.is_empty() {
            owned.set = owned.set.difference(&lost.removed);
        }
    }
    owners.retain(|_, owned| !owned.set.is_empty());
    Ok(changed)
}

/// Removes the paths that nobody owns: the object's identity and the fields that the server maintains.
pub(super) fn strip(set: &Set) -> Set {
    let mut stripped = Set::default();
    for path in [
        &["apiVersion"][..],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ] {
        stripped.insert(&crate::fields::Path::of_fields(path).0);
    }
    set.difference(&stripped)
}
