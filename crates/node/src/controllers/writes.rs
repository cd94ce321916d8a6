//! Writes that several controllers share.

use std::fmt::Debug;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use longboat_watch::text_of;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::events::{Recorder, Severity};

/// Returns `None` if the API server refused with one of these codes: others may have deleted or changed the object meanwhile, and
/// their change brings the next reconcile.
pub(crate) fn tolerate<T>(result: Result<T, kube::Error>, codes: &[u16]) -> Result<Option<T>, kube::Error> {
    match result {
        Err(kube::Error::Api(answer)) if codes.contains(&answer.code) => Ok(None),
        other => other.map(Some),
    }
}

/// Creates a pod for an object, and publishes the outcome. It is no news if a pod of this name exists: the cache is behind, or
/// the previous pod is being deleted, and its deletion brings the next reconcile.
pub(super) async fn create_pod<K: Resource<DynamicType = ()>>(
    client: &Client,
    recorder: &Recorder,
    owner: &K,
    pod: &Pod,
) -> Result<Pod, kube::Error> {
    let created = api_beside(client, owner).create(&PostParams::default(), pod).await;
    match &created {
        Ok(pod) => {
            let message = format!("Created pod: {}", pod.name_any());
            recorder.publish(owner, Severity::Normal, "SuccessfulCreate", message);
        }
        Err(kube::Error::Api(answer)) if answer.code == 409 => {}
        Err(error) => {
            let message = format!("Error creating: {}", text_of(error));
            recorder.publish(owner, Severity::Warning, "FailedCreate", message);
        }
    }
    created
}

/// Deletes a pod, and no other pod that has its name by now. Returns whether there was something to delete that is not being
/// deleted already.
pub(super) async fn delete_pod(client: &Client, pod: &Pod) -> Result<bool, kube::Error> {
    if pod.metadata.deletion_timestamp.is_some() {
        return Ok(false);
    }
    let api: Api<Pod> = api_beside(client, pod);
    let preconditions = Some(Preconditions { uid: pod.uid(), resource_version: None });
    let params = DeleteParams { preconditions, ..DeleteParams::default() };
    Ok(tolerate(api.delete(&pod.name_any(), &params).await, &[404, 409])?.is_some())
}

/// Returns the API for the objects of a kind in the namespace of an object.
pub(crate) fn api_beside<K>(client: &Client, object: &impl ResourceExt) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(client.clone(), &object.namespace().unwrap_or_default())
}

/// Merges a change into an object.
pub(crate) async fn merge<K: Clone + DeserializeOwned + Debug>(
    api: &Api<K>,
    name: &str,
    change: Value,
) -> Result<K, kube::Error> {
    api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await
}

/// Merges a status into an object. Returns whether the object was still there. A status that was computed from an old
/// revision is refused, and the next event brings the new one.
pub(super) async fn merge_status<K>(
    client: &Client,
    object: &K,
    status: impl Serialize,
) -> Result<bool, kube::Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    let api: Api<K> = api_beside(client, object);
    let patch = json!({"metadata": {"resourceVersion": object.meta().resource_version}, "status": status});
    let answer = api.patch_status(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await;
    Ok(tolerate(answer, &[404])?.is_some())
}

/// A status for a merge patch, which does not remove fields that it omits: absent ones of these fields are set to null.
pub(super) fn with_nulls(status: impl Serialize, fields: &[&str]) -> Value {
    let mut status = json!(status);
    for field in fields {
        if status.get(field).is_none() {
            status[*field] = Value::Null;
        }
    }
    status
}

/// Returns the current time in whole seconds, the precision of the API.
pub(super) fn now() -> Time {
    let now = Timestamp::now();
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}
