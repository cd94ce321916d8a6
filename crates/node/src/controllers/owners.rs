//! Which object controls which.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;

use super::queue::Key;
use crate::cache::Cache;

/// Returns the pods that an object controls.
pub(super) fn pods_of<K: Resource>(pods: &Cache<Pod>, owner: &K) -> Vec<Arc<Pod>> {
    let owner = owner.meta();
    let mut pods = pods.all();
    pods.retain(|pod| {
        pod.metadata.namespace == owner.namespace
            && controller_of(pod.as_ref()).is_some_and(|found| Some(&found.uid) == owner.uid.as_ref())
    });
    pods
}

/// Returns the reference to the object's controller.
pub(super) fn controller_of<K: Resource>(object: &K) -> Option<&OwnerReference> {
    object.meta().owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Returns the key of the object's controller, if the controller has this kind.
pub(super) fn owner_key<K: Resource>(object: &K, kind: &str) -> Option<Key> {
    let owner = controller_of(object).filter(|owner| owner.kind == kind)?;
    Some(Key { namespace: object.meta().namespace.clone().unwrap_or_default(), name: owner.name.clone() })
}

/// Returns a reference that makes `owner` the controller of another object.
pub(super) fn control_by<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: owner.meta().name.clone().unwrap_or_default(),
        uid: owner.meta().uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
