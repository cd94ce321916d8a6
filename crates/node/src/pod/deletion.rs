//! Deletes the object of a pod whose containers have ended.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt};
use longboat_watch::text_of;
use serde_json::json;
use tokio::sync::watch;

use super::shared::Shared;
use super::worker::{View, WRITE_RETRY_INTERVAL};
use crate::controllers::{api_beside, tolerate};

/// Handles a pod that had ended before this node started. There is nothing to run, but the worker must complete its
/// deletion.
pub(super) async fn complete(shared: &Shared, mut view: watch::Receiver<View>) {
    let mut shutdown = shared.shutdown.clone();
    loop {
        let current = view.borrow_and_update().clone();
        if current.gone {
            return;
        }
        if current.pod.metadata.deletion_timestamp.is_some() {
            delete(shared, &current.pod).await;
        }
        tokio::select! {
            changed = view.changed() => if changed.is_err() { return },
            _ = shutdown.wait_for(Option::is_some) => return,
        }
    }
}

/// Deletes a pod whose containers have ended. Returns `false` if this failed.
pub(super) async fn delete(shared: &Shared, pod: &Pod) -> bool {
    let api: Api<Pod> = api_beside(&shared.client, pod);
    let params = DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions { uid: pod.uid(), resource_version: None }),
        ..DeleteParams::default()
    };
    // With these codes, the pod is deleted, or another pod now has its name.
    let deleted = tolerate(api.delete(&pod.name_any(), &params).await, &[404, 409]);
    if let Err(error) = &deleted {
        tracing::debug!(error = %text_of(error), pod = %pod.name_any(), "Cannot delete a pod that has ended.");
    }
    deleted.is_ok()
}

/// Reports that a pod has failed because its worker has, and completes its deletion. The controller of the pod replaces it.
pub(super) async fn fail(shared: &Shared, view: watch::Receiver<View>) {
    let pod = Arc::clone(&view.borrow().pod);
    let api: Api<Pod> = api_beside(&shared.client, pod.as_ref());
    let message =
        "The node failed while it ran the pod: look for the error in the log of the node, and report it.";
    let status = json!({"phase": "Failed", "reason": "NodeError", "message": message});
    let patch = Patch::Merge(json!({"metadata": {"uid": pod.uid()}, "status": status}));
    while shared.shutdown.borrow().is_none() {
        let answer = api.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await;
        if tolerate(answer, &[404, 409]).is_ok() {
            break;
        }
        tokio::time::sleep(WRITE_RETRY_INTERVAL).await;
    }
    complete(shared, view).await;
}

/// Waits until the object is gone, which a finalizer may keep. Its changes must not start a second worker: it would run the pod
/// anew.
pub(super) async fn wait(shared: &Shared, mut view: watch::Receiver<View>) {
    let mut shutdown = shared.shutdown.clone();
    tokio::select! {
        _ = view.wait_for(|view| view.gone) => {}
        _ = shutdown.wait_for(Option::is_some) => {}
    }
}
