//! Which object controls which.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use longboat_key::{Key, Name, Namespace};

use crate::cache::{Cache, CachedKind};

/// Returns the objects of a kind that an object controls.
pub(super) fn controlled_by<K: CachedKind>(cache: &Cache<K>, owner: &impl Resource) -> Vec<Arc<K>> {
    let mut all = cache.all();
    all.retain(|object| {
        object.meta().namespace == owner.meta().namespace && controls(owner, object.as_ref())
    });
    all
}

/// Whether `owner` controls an object of its namespace.
pub(super) fn controls(owner: &impl Resource, object: &impl Resource) -> bool {
    controller_of(object).is_some_and(|found| Some(&found.uid) == owner.meta().uid.as_ref())
}

/// Returns the reference to the object's controller.
pub(super) fn controller_of<K: Resource>(object: &K) -> Option<&OwnerReference> {
    object.meta().owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Returns the key of the object's controller, if the controller has this kind.
pub(super) fn owner_key<K: Resource>(object: &K, kind: &str) -> Option<Key> {
    let owner = controller_of(object).filter(|owner| owner.kind == kind)?;
    Some(Key::new(Namespace::of(object.meta()), Name(&owner.name)))
}

/// Returns a reference that makes `owner` the controller of another object.
pub(super) fn control_by<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    let reference = owner.controller_owner_ref(&()).unwrap_or_default();
    OwnerReference { block_owner_deletion: Some(true), ..reference }
}
