//! PersistentVolumeClaims. The controller binds each claim to a folder of the state directory.
//!
//! A claim with a volume name or a label selector asks for a particular disk. A machine without a storage provider does not
//! have it, so such a claim stays Pending, and an event says so.

use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    HostPathVolumeSource, ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec, Pod,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use longboat_key::{Key, Name, Namespace};
use serde_json::json;

use super::pods::has_ended;
use super::queue::{self, Again, Reconcile, triggers};
use super::setup::Setup;
use super::writes::{merge, tolerate};
use crate::cache::Cache;
use crate::events::{Recorder, Severity};
use crate::private;

/// The finalizer that keeps a claim while pods use it.
const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// The finalizer that keeps a volume while it is bound.
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
/// Marks the volumes that this controller created.
const PROVISIONER: &str = "longboat.local/folder";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

struct Claims {
    client: Client,
    pods: Cache<Pod>,
    recorder: Recorder,
    /// The folder that holds one folder of claims per namespace.
    folders: PathBuf,
}

pub(super) async fn run(Setup { client, caches, recorder, cancel }: Setup, folders: PathBuf) {
    // A deleted pod may have been the last user of its claims.
    let pods = triggers(&caches.pods, |pod: &Pod| claims_of(pod));
    caches.pods.ready().await;
    let claims = Claims { client, pods: caches.pods, recorder, folders };
    queue::run(claims, caches.claims, pods, cancel).await;
}

fn claims_of(pod: &Pod) -> Vec<Key> {
    let namespace = Namespace::of(&pod.metadata);
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes
        .filter_map(|volume| {
            let name = &volume.persistent_volume_claim.as_ref()?.claim_name;
            Some(Key::new(namespace, Name(name)))
        })
        .collect()
}

impl Reconcile<PersistentVolumeClaim> for Claims {
    const NAME: &'static str = "claims";

    async fn finalize(&mut self, key: &Key, claim: &PersistentVolumeClaim) -> Again {
        self.release(key, claim).await.map(|()| None)
    }

    async fn reconcile(&mut self, key: &Key, claim: &PersistentVolumeClaim) -> Again {
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
        if phase == Some("Bound") {
            return Ok(None);
        }
        let spec = claim.spec.clone().unwrap_or_default();
        let own = volume_name(claim);
        let particular =
            spec.volume_name.as_ref().is_some_and(|name| *name != own) || spec.selector.is_some();
        if particular {
            let message = "this machine cannot bind a claim to a specific volume: remove volumeName and \
                           selector, and the claim is bound to a folder of the state directory";
            self.recorder.publish(claim, Severity::Warning, "ProvisioningFailed", message);
            return Ok(None);
        }
        self.bind(key, claim, &own).await.map(|()| None)
    }
}

fn volume_name(claim: &PersistentVolumeClaim) -> String {
    format!("pvc-{}", claim.uid().unwrap_or_default())
}

impl Claims {
    /// Returns the folder of a claim whose names are those of folders.
    fn folder(&self, key: &Key) -> Option<PathBuf> {
        let names: [&str; 2] = [&key.namespace, &key.name];
        names.iter().all(|name| private::is_name(name)).then(|| self.folders.join(names[0]).join(names[1]))
    }

    async fn bind(&self, key: &Key, claim: &PersistentVolumeClaim, volume: &str) -> Result<(), kube::Error> {
        let Some(folder) = self.folder(key) else { return Ok(()) };
        if let Err(error) = private::create_dir(&folder) {
            let message = format!("cannot create {}: {error}", folder.display());
            self.recorder.publish(claim, Severity::Warning, "ProvisioningFailed", message);
            return Ok(());
        }
        let spec = claim.spec.clone().unwrap_or_default();
        let capacity = spec.resources.clone().and_then(|resources| resources.requests);
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        // The volume before the claim: a claim that says it is bound must have its volume.
        if volumes.get_opt(volume).await?.is_none() {
            let object = PersistentVolume {
                metadata: ObjectMeta {
                    name: Some(volume.to_owned()),
                    annotations: Some([(PROVISIONED_BY.to_owned(), PROVISIONER.to_owned())].into()),
                    ..ObjectMeta::default()
                },
                spec: Some(PersistentVolumeSpec {
                    access_modes: spec.access_modes.clone(),
                    capacity: capacity.clone(),
                    claim_ref: Some(ObjectReference {
                        api_version: Some("v1".to_owned()),
                        kind: Some("PersistentVolumeClaim".to_owned()),
                        namespace: Some(key.namespace.to_string()),
                        name: Some(key.name.to_string()),
                        uid: claim.uid(),
                        ..ObjectReference::default()
                    }),
                    host_path: Some(HostPathVolumeSource {
                        path: folder.to_string_lossy().into_owned(),
                        type_: None,
                    }),
                    persistent_volume_reclaim_policy: Some("Delete".to_owned()),
                    storage_class_name: spec.storage_class_name.clone(),
                    volume_mode: spec.volume_mode.clone(),
                    ..PersistentVolumeSpec::default()
                }),
                status: None,
            };
            tolerate(volumes.create(&PostParams::default(), &object).await, &[409])?;
        }
        let bound = Patch::Merge(json!({"status": {"phase": "Bound"}}));
        volumes.patch_status(volume, &PatchParams::default(), &bound).await?;
        let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &key.namespace);
        let patch = json!({
            "metadata": {
                "uid": claim.uid(),
                "annotations": {
                    "pv.kubernetes.io/bind-completed": "yes",
                    "pv.kubernetes.io/bound-by-controller": "yes",
                },
            },
            "spec": {"volumeName": volume},
        });
        merge(&api, &key.name, patch).await?;
        let status = json!({"status": {
            "phase": "Bound", "accessModes": spec.access_modes, "capacity": capacity,
        }});
        api.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(status)).await?;
        let message = format!("Successfully provisioned volume {volume}");
        self.recorder.publish(claim, Severity::Normal, "ProvisioningSucceeded", message);
        Ok(())
    }

    /// Deletes the folder of a deleted claim and removes its finalizer, once no pod uses the claim.
    async fn release(&self, key: &Key, claim: &PersistentVolumeClaim) -> Result<(), kube::Error> {
        let is_used = |pod: &Arc<Pod>| !has_ended(pod) && claims_of(pod).contains(key);
        if self.pods.all().iter().any(is_used) {
            return Ok(());
        }
        let volume = volume_name(claim);
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let ours = volumes.get_opt(&volume).await?.filter(|volume| {
            volume.annotations().get(PROVISIONED_BY).is_some_and(|provisioner| provisioner == PROVISIONER)
        });
        if ours.is_some() {
            // The folder before the volume: as long as the volume is there, an interrupted removal is tried again.
            if let Some(folder) = self.folder(key)
                && let Err(error) = private::if_found(tokio::fs::remove_dir_all(&folder).await)
            {
                tracing::warn!(%error, folder = %folder.display(), "Cannot remove the folder of a deleted \
                                                                    PersistentVolumeClaim.");
            }
            self.without(&volumes, &volume, VOLUME_PROTECTION).await?;
            tolerate(volumes.delete(&volume, &DeleteParams::default()).await, &[404])?;
        }
        let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &key.namespace);
        self.without(&api, &key.name, CLAIM_PROTECTION).await
    }

    /// Removes a finalizer, if it is there.
    async fn without<K>(&self, api: &Api<K>, name: &str, finalizer: &str) -> Result<(), kube::Error>
    where
        K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
    {
        let Some(object) = api.get_opt(name).await? else { return Ok(()) };
        let before = object.meta().finalizers.clone().unwrap_or_default();
        let kept: Vec<&String> = before.iter().filter(|listed| *listed != finalizer).collect();
        if kept.len() == before.len() {
            return Ok(());
        }
        let patch = json!({"metadata": {
            "resourceVersion": object.meta().resource_version, "finalizers": kept,
        }});
        tolerate(merge(api, name, patch).await, &[404])?;
        Ok(())
    }
}
