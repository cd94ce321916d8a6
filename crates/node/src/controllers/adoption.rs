//! Adopts objects that a selector matches, and releases those that it matches no longer.
//!
//! Kubernetes: pkg/controller/controller_ref_manager.go. So a Deployment that was deleted with `--cascade=orphan` and created again
//! goes on with its pods, and a pod whose labels somebody takes away is replaced but keeps running.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use kube::core::{NamespaceResourceScope, Selector, SelectorExt};
use kube::{Client, Resource, ResourceExt};
use longboat_key::Key;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::owners::{control_by, controller_of, controls, owner_key};
use super::writes::{api_beside, merge, tolerate};
use crate::cache::{Cache, CachedKind};

/// A kind that controls the objects that its selector matches.
pub(super) trait Adopter:
    CachedKind + Resource<DynamicType = (), Scope = NamespaceResourceScope>
{
    fn selector(&self) -> Option<&LabelSelector>;
}

/// A kind of objects in namespaces.
pub(super) trait Adoptable:
    CachedKind + Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned
{
}

impl<K> Adoptable for K where
    K: CachedKind + Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned
{
}

impl Adopter for Deployment {
    fn selector(&self) -> Option<&LabelSelector> {
        Some(&self.spec.as_ref()?.selector)
    }
}

impl Adopter for ReplicaSet {
    fn selector(&self) -> Option<&LabelSelector> {
        Some(&self.spec.as_ref()?.selector)
    }
}

impl Adopter for StatefulSet {
    fn selector(&self) -> Option<&LabelSelector> {
        Some(&self.spec.as_ref()?.selector)
    }
}

/// Whether the owner's selector matches an object of its namespace. An empty selector matches nothing.
fn selects(owner: &impl Adopter, object: &impl Resource) -> bool {
    let selector = owner.selector().cloned().map(Selector::try_from);
    let labels = object.meta().labels.clone().unwrap_or_default();
    owner.meta().namespace == object.meta().namespace
        && selector
            .and_then(Result::ok)
            .is_some_and(|selector| !selector.selects_all() && selector.matches(&labels))
}

/// Returns the key of the object's controller, or of one that may adopt the object.
pub(super) fn adopter_key<O: Adopter + CachedKind>(owners: &Cache<O>, object: &impl Resource) -> Option<Key> {
    if controller_of(object).is_some() {
        return owner_key(object, &O::kind(&()));
    }
    let owner = owners.all().into_iter().find(|owner| selects(owner.as_ref(), object))?;
    Some(Key::of_metadata(owner.meta()))
}

/// Returns the objects that `owner` controls, after it has released those that its selector does not match and adopted those
/// without a controller that its selector and `may_adopt` match.
pub(super) async fn claim<O: Adopter + Adoptable, K: Adoptable>(
    client: &Client,
    objects: &Cache<K>,
    owner: &O,
    may_adopt: impl Fn(&K) -> bool,
) -> Result<Vec<Arc<K>>, kube::Error> {
    let is_deleted = owner.meta().deletion_timestamp.is_some();
    let mut claimed = Vec::new();
    let mut is_live = None;
    for object in objects.all() {
        let matches = selects(owner, object.as_ref());
        let is_ours = object.meta().namespace == owner.meta().namespace && controls(owner, object.as_ref());
        if is_ours && (matches || is_deleted) {
            claimed.push(object);
        } else if is_ours {
            set_owners(client, object.as_ref(), |owners| {
                owners.retain(|one| Some(&one.uid) != owner.meta().uid.as_ref());
            })
            .await?;
        } else if matches
            && !is_deleted
            && controller_of(object.as_ref()).is_none()
            && object.meta().deletion_timestamp.is_none()
            && may_adopt(&object)
        {
            // The cache may not show yet that the owner is being deleted and that its objects are to stay.
            let live = match is_live {
                Some(live) => live,
                None => *is_live.insert(is_there(client, owner).await?),
            };
            if live {
                let adopted =
                    set_owners(client, object.as_ref(), |owners| owners.push(control_by(owner))).await?;
                claimed.extend(adopted.map(Arc::new));
            }
        }
    }
    Ok(claimed)
}

/// Whether the API server has this object, and it is not being deleted.
async fn is_there<O: Adoptable>(client: &Client, owner: &O) -> Result<bool, kube::Error> {
    let live = api_beside::<O>(client, owner).get_opt(&owner.name_any()).await?;
    Ok(live
        .is_some_and(|live| live.meta().uid == owner.meta().uid && live.meta().deletion_timestamp.is_none()))
}

/// Changes the owners of an object. Returns `None` if the object has changed meanwhile, which brings the next reconcile.
async fn set_owners<K: Adoptable>(
    client: &Client,
    object: &K,
    change: impl FnOnce(&mut Vec<OwnerReference>),
) -> Result<Option<K>, kube::Error> {
    let mut owners = object.owner_references().to_vec();
    change(&mut owners);
    let metadata = json!({"ownerReferences": owners, "resourceVersion": object.meta().resource_version});
    let answer = merge(&api_beside(client, object), &object.name_any(), json!({"metadata": metadata})).await;
    tolerate(answer, &[404, 409])
}
