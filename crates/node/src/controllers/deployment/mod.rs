//! Deployments: rolling updates and recreation by scaling ReplicaSets.
//!
//! Kubernetes: pkg/controller/deployment. The deprecated rollback annotation has no effect.

mod conditions;
mod rollout;
mod template;
mod view;

use std::sync::Arc;

use futures::stream;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStatus, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use longboat_api::annotations::IN_PROCESS;
use longboat_key::Key;
use longboat_watch::text_of;
use serde_json::json;

use super::adoption::{adopter_key, claim};
use super::owners::{control_by, controlled_by, controls, owner_key};
use super::pods::has_ended;
use super::queue::{self, Again, Reconcile, triggers};
use super::setup::{Caches, Setup};
use super::writes::{api_beside, merge, merge_status, now, tolerate, with_nulls};
use crate::events::{Recorder, Severity};
use rollout::Resize;
use template::HASH_LABEL;
use view::{DESIRED, MAX, REVISION, Settings};

struct Deployments {
    client: Client,
    caches: Caches,
    recorder: Recorder,
}

pub(super) async fn run(Setup { client, caches, recorder, cancel }: Setup) {
    let deployments = caches.deployments.clone();
    let sets = triggers(&caches.replica_sets, move |set: &ReplicaSet| adopter_key(&deployments, set));
    // The Recreate strategy waits until old pods are gone, which ReplicaSets do not show.
    let replica_sets = caches.replica_sets.clone();
    let pods = triggers(&caches.pods, move |pod: &Pod| {
        let over = pod.metadata.deletion_timestamp.is_some();
        let set = owner_key(pod, "ReplicaSet").filter(|_| over)?;
        owner_key(replica_sets.get(&set.namespace, &set.name)?.as_ref(), "Deployment")
    });
    caches.replica_sets.ready().await;
    let objects = caches.deployments.clone();
    let deployments = Deployments { client, caches, recorder };
    Box::pin(queue::run(deployments, objects, stream::select(sets, pods), cancel)).await;
}

/// The state of one reconcile of one Deployment, including the objects that were written so far.
struct Rollout {
    deployment: Deployment,
    settings: Settings,
    /// The ReplicaSet with the current template.
    new: Option<ReplicaSet>,
    /// The other ReplicaSets, oldest first.
    old: Vec<ReplicaSet>,
    /// The status that will be written.
    status: DeploymentStatus,
}

impl Reconcile<Deployment> for Deployments {
    const NAME: &'static str = "deployment";

    async fn finalize(&mut self, key: &Key, deployment: &Deployment) -> Again {
        Box::pin(self.reconcile(key, deployment)).await
    }

    async fn reconcile(&mut self, _: &Key, deployment: &Deployment) -> Again {
        if deployment.annotations().contains_key(IN_PROCESS) {
            return Ok(None);
        }
        let mut rollout = self.observe(deployment).await?;
        if rollout.deployment.metadata.deletion_timestamp.is_some() {
            return self.write_status(rollout).await;
        }
        let spec = rollout.deployment.spec.clone().unwrap_or_default();
        conditions::pause(&mut rollout.status, &rollout.settings, &now());
        if spec.paused == Some(true) || rollout::is_scaling(&rollout.settings, rollout.all()) {
            self.adopt_revision(&mut rollout).await?;
            let resizes = rollout::proportional(&rollout.settings, rollout.new.as_ref(), &rollout.old);
            self.resize(&mut rollout, resizes).await?;
            if spec.paused == Some(true) {
                self.forget_history(&mut rollout).await?;
            }
        } else if rollout.settings.recreate {
            self.recreate(&mut rollout).await?;
        } else {
            self.ensure_new(&mut rollout).await?;
            let up = rollout::new_size(&rollout.settings, rollout.new.as_ref(), &rollout.old);
            if up.is_empty() {
                let down = rollout::old_sizes(&rollout.settings, rollout.new.as_ref(), &rollout.old);
                self.resize(&mut rollout, down).await?;
            } else {
                self.resize(&mut rollout, up).await?;
            }
        }
        if conditions::is_complete(&rollout.deployment, &rollout.settings, &rollout.computed_status()) {
            self.forget_history(&mut rollout).await?;
        }
        self.write_status(rollout).await
    }
}

impl Rollout {
    fn all(&self) -> impl Iterator<Item = &ReplicaSet> {
        self.new.iter().chain(&self.old)
    }

    fn computed_status(&self) -> DeploymentStatus {
        conditions::counts(&self.deployment, &self.settings, self.new.as_ref(), &self.old, &self.status)
    }
}

impl Deployments {
    async fn observe(&self, deployment: &Deployment) -> Result<Rollout, kube::Error> {
        let sets = claim(&self.client, &self.caches.replica_sets, deployment, |_| true).await?;
        let mut sets: Vec<ReplicaSet> = sets.into_iter().map(Arc::unwrap_or_clone).collect();
        sets.sort_by_key(|set| (set.metadata.creation_timestamp.clone(), set.name_any()));
        let template = deployment.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
        let new = sets
            .iter()
            .position(|set| {
                set.spec.as_ref().is_some_and(|spec| template::same(spec.template.as_ref(), &template))
            })
            .map(|index| sets.remove(index));
        Ok(Rollout {
            settings: Settings::of(deployment),
            deployment: deployment.clone(),
            new,
            old: sets,
            status: deployment.status.clone().unwrap_or_default(),
        })
    }

    fn sets(&self, rollout: &Rollout) -> Api<ReplicaSet> {
        api_beside(&self.client, &rollout.deployment)
    }

    async fn recreate(&self, rollout: &mut Rollout) -> Result<(), kube::Error> {
        let down: Vec<_> =
            rollout.old.iter().filter(|set| view::replicas(set) > 0).map(|set| Resize::new(set, 0)).collect();
        if !down.is_empty() {
            return self.resize(rollout, down).await;
        }
        let is_there = |pod: &Arc<Pod>| !has_ended(pod);
        if rollout.old.iter().any(|set| controlled_by(&self.caches.pods, set).iter().any(is_there)) {
            return Ok(());
        }
        self.ensure_new(rollout).await?;
        let wanted = rollout.settings.replicas;
        let up: Vec<_> = rollout
            .new
            .iter()
            .filter(|set| view::replicas(set) != wanted)
            .map(|set| Resize::new(set, wanted))
            .collect();
        self.resize(rollout, up).await
    }

    /// Creates the ReplicaSet with the current template if it does not exist, and updates its annotations.
    async fn ensure_new(&self, rollout: &mut Rollout) -> Result<(), kube::Error> {
        if rollout.new.is_some() {
            return self.adopt_revision(rollout).await;
        }
        let spec = rollout.deployment.spec.clone().unwrap_or_default();
        let set = new_set(rollout, &spec);
        let set_name = set.name_any();
        let size = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0);
        let api = self.sets(rollout);
        let created = match api.create(&PostParams::default(), &set).await {
            Ok(created) => created,
            Err(kube::Error::Api(answer)) if answer.reason == "AlreadyExists" => {
                let live = api.get(&set_name).await?;
                let same = |live: &ReplicaSetSpec| template::same(live.template.as_ref(), &spec.template);
                if controls(&rollout.deployment, &live) && live.spec.as_ref().is_some_and(same) {
                    // The cache is behind the server.
                    rollout.new = Some(live);
                    return self.adopt_revision(rollout).await;
                }
                // Two templates have the same hash: the next reconcile uses another name.
                let count = rollout.status.collision_count.unwrap_or(0) + 1;
                merge_status(&self.client, &rollout.deployment, json!({"collisionCount": count})).await?;
                return Err(kube::Error::Api(answer));
            }
            Err(error) => {
                let message = format!("Failed to create new replica set {set_name:?}: {}", text_of(&error));
                let (about, reason) = (&rollout.deployment, "ReplicaSetCreateError");
                self.recorder.publish(about, Severity::Warning, reason, message.clone());
                conditions::create_failed(&mut rollout.status, &rollout.settings, message, &now());
                let status = json!({"conditions": rollout.status.conditions});
                merge_status(&self.client, &rollout.deployment, status).await?;
                return Err(error);
            }
        };
        if size > 0 {
            let message = format!("Scaled up replica set {set_name} from 0 to {size}");
            self.recorder.publish(&rollout.deployment, Severity::Normal, "ScalingReplicaSet", message);
        }
        conditions::created(&mut rollout.status, &rollout.settings, &set_name, &now());
        rollout.new = Some(created);
        self.adopt_revision(rollout).await
    }

    /// Sets the revision of the current ReplicaSet to the highest one, and copies the Deployment's annotations to it. Sets
    /// the same revision on the Deployment.
    async fn adopt_revision(&self, rollout: &mut Rollout) -> Result<(), kube::Error> {
        let Some(new) = &rollout.new else { return Ok(()) };
        let revision = view::revision(new).max(view::highest_revision(&rollout.old) + 1);
        let mut wanted = view::inherited_annotations(&rollout.deployment);
        wanted.insert(REVISION.to_owned(), revision.to_string());
        let min_ready = rollout.deployment.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
        let has = new.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
        let missing = wanted.iter().any(|(key, value)| new.annotations().get(key) != Some(value));
        if missing || has != min_ready {
            let patch = json!({
                "metadata": {"annotations": wanted, "resourceVersion": new.metadata.resource_version},
                "spec": {"minReadySeconds": min_ready},
            });
            rollout.new = Some(merge(&self.sets(rollout), &new.name_any(), patch).await?);
        }
        if let Some(new) = &rollout.new {
            conditions::found(&mut rollout.status, &rollout.settings, &new.name_any(), &now());
        }
        if rollout.deployment.annotations().get(REVISION) != Some(&revision.to_string()) {
            let api: Api<Deployment> = api_beside(&self.client, &rollout.deployment);
            let patch = json!({"metadata": {"annotations": {REVISION: revision.to_string()},
                "resourceVersion": rollout.deployment.metadata.resource_version}});
            rollout.deployment.metadata = merge(&api, &rollout.deployment.name_any(), patch).await?.metadata;
        }
        Ok(())
    }

    async fn resize(&self, rollout: &mut Rollout, resizes: Vec<Resize>) -> Result<(), kube::Error> {
        let api = self.sets(rollout);
        for Resize { name, to } in resizes {
            let settings = &rollout.settings;
            let annotations = json!({
                DESIRED: settings.replicas.to_string(),
                MAX: (settings.replicas + settings.max_surge).to_string(),
            });
            let Some(set) = rollout.new.iter_mut().chain(&mut rollout.old).find(|set| set.name_any() == name)
            else {
                continue;
            };
            let from = view::replicas(set);
            let patch = json!({
                "metadata": {"annotations": annotations, "resourceVersion": set.metadata.resource_version},
                "spec": {"replicas": to},
            });
            *set = merge(&api, &name, patch).await?;
            if from != to {
                let direction = if to > from { "up" } else { "down" };
                let message = format!("Scaled {direction} replica set {name} from {from} to {to}");
                self.recorder.publish(&rollout.deployment, Severity::Normal, "ScalingReplicaSet", message);
            }
        }
        Ok(())
    }

    /// Deletes the oldest ReplicaSets beyond `revisionHistoryLimit`.
    async fn forget_history(&self, rollout: &mut Rollout) -> Result<(), kube::Error> {
        let limit =
            rollout.deployment.spec.as_ref().and_then(|spec| spec.revision_history_limit).unwrap_or(10);
        let api = self.sets(rollout);
        for name in rollout::beyond_history_limit(&rollout.old, usize::try_from(limit).unwrap_or(0)) {
            let Some(set) = rollout.old.iter().find(|set| set.name_any() == name) else { continue };
            let params = DeleteParams {
                preconditions: Some(Preconditions { uid: set.uid(), resource_version: None }),
                ..DeleteParams::background()
            };
            tolerate(api.delete(&name, &params).await, &[404, 409])?;
            rollout.old.retain(|set| set.name_any() != name);
        }
        Ok(())
    }

    /// Writes the status if it has changed. Returns the time until the progress deadline.
    async fn write_status(&self, mut rollout: Rollout) -> Again {
        let before = rollout.deployment.status.clone().unwrap_or_default();
        let at = now();
        rollout.status = rollout.computed_status();
        if rollout.deployment.metadata.deletion_timestamp.is_none() {
            let new = rollout.new.as_ref();
            let complete = conditions::is_complete(&rollout.deployment, &rollout.settings, &rollout.status);
            conditions::progress(
                &mut rollout.status,
                &before,
                &rollout.settings,
                complete,
                new,
                &rollout.deployment.name_any(),
                &at,
            );
        }
        conditions::failure(&mut rollout.status, rollout.new.iter().chain(&rollout.old), &at);
        if rollout.status != before {
            let removable =
                ["availableReplicas", "readyReplicas", "replicas", "unavailableReplicas", "updatedReplicas"];
            let status = with_nulls(&rollout.status, &removable);
            merge_status(&self.client, &rollout.deployment, status).await?;
        }
        Ok(conditions::deadline(&rollout.status, &rollout.settings, &at))
    }
}

/// Returns the ReplicaSet of the current template, as it is created.
fn new_set(rollout: &Rollout, spec: &DeploymentSpec) -> ReplicaSet {
    let Rollout { deployment, settings, old, status, .. } = rollout;
    let hash = template::hash(&spec.template, status.collision_count);
    let mut annotations = view::inherited_annotations(deployment);
    annotations.insert(REVISION.to_owned(), (view::highest_revision(old) + 1).to_string());
    annotations.insert(DESIRED.to_owned(), settings.replicas.to_string());
    annotations.insert(MAX.to_owned(), (settings.replicas + settings.max_surge).to_string());
    let mut template = spec.template.clone();
    let template_meta = template.metadata.get_or_insert_default();
    template_meta.labels.get_or_insert_default().insert(HASH_LABEL.to_owned(), hash.clone());
    let labels = template_meta.labels.clone();
    let mut match_labels = spec.selector.match_labels.clone().unwrap_or_default();
    match_labels.insert(HASH_LABEL.to_owned(), hash.clone());
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", deployment.name_any())),
            namespace: deployment.namespace(),
            labels,
            annotations: Some(annotations),
            owner_references: Some(vec![control_by(deployment)]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(rollout::initial_size(settings, old)),
            min_ready_seconds: spec.min_ready_seconds,
            selector: LabelSelector { match_labels: Some(match_labels), ..spec.selector.clone() },
            template: Some(template),
        }),
        status: None,
    }
}
