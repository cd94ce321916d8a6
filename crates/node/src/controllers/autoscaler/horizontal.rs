//! HorizontalPodAutoscalers. A node has no metrics API, so each autoscaler reports missing metrics, as on a cluster without
//! a metrics server.

use std::time::Duration;

use futures::stream;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::{
    HorizontalPodAutoscaler, HorizontalPodAutoscalerCondition, HorizontalPodAutoscalerSpec,
    HorizontalPodAutoscalerStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use longboat_api::foreign::leaderworkerset::LeaderWorkerSet;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Scale, Target};
use crate::controllers::queue::{self, Key, Reconcile};
use crate::controllers::{Caches, key_of, now, triggers};
use crate::events::{Component, Recorder, Severity, reference};

struct Autoscalers {
    client: Client,
    caches: Caches,
    recorder: Recorder,
}

pub(in crate::controllers) async fn run(
    client: Client,
    caches: Caches,
    recorder: Recorder,
    cancel: CancellationToken,
) {
    let own = triggers(&caches.autoscalers, |object: &HorizontalPodAutoscaler| [key_of(object)]);
    let deployments = {
        let all = caches.autoscalers.clone();
        triggers(&caches.deployments, move |object: &Deployment| {
            scaling(&all.all(), "Deployment", &key_of(object))
        })
    };
    let sets = {
        let all = caches.autoscalers.clone();
        triggers(&caches.leader_worker_sets, move |object: &LeaderWorkerSet| {
            scaling(&all.all(), "LeaderWorkerSet", &key_of(object))
        })
    };
    // Without the targets in the cache, every autoscaler would report that its target is missing.
    caches.deployments.ready().await;
    let autoscalers = Autoscalers { client, caches, recorder };
    let changes = stream::select(own, stream::select(deployments, sets));
    Box::pin(queue::run(autoscalers, changes, cancel)).await;
}

/// Returns the keys of the autoscalers that scale this workload.
fn scaling(all: &[std::sync::Arc<HorizontalPodAutoscaler>], kind: &str, key: &Key) -> Vec<Key> {
    let scales = |object: &&std::sync::Arc<HorizontalPodAutoscaler>| {
        let target = target(object);
        (target.namespace.as_str(), target.kind.as_str(), target.name.as_str())
            == (key.namespace.as_str(), kind, key.name.as_str())
    };
    all.iter().filter(scales).map(|object| key_of(object.as_ref())).collect()
}

fn target(object: &HorizontalPodAutoscaler) -> Target {
    let target = object.spec.as_ref().map(|spec| spec.scale_target_ref.clone()).unwrap_or_default();
    Target { namespace: object.namespace().unwrap_or_default(), kind: target.kind, name: target.name }
}

impl Reconcile for Autoscalers {
    const NAME: &'static str = "horizontalpodautoscaler";

    fn all(&self) -> Vec<Key> {
        self.caches.autoscalers.all().iter().map(|object| key_of(object.as_ref())).collect()
    }

    async fn reconcile(&mut self, key: &Key) -> Result<Option<Duration>, kube::Error> {
        let Some(object) = self.caches.autoscalers.get(&key.namespace, &key.name) else { return Ok(None) };
        if object.meta().deletion_timestamp.is_some() {
            return Ok(None);
        }
        let target = target(&object);
        let spec = object.spec.clone().unwrap_or_default();
        let before = object.status.clone().unwrap_or_default();
        let scale = target.scale(&self.caches);
        let wanted = scale.map(|scale| within(&spec, scale.wanted));
        if let (Some(scale), Some(wanted)) = (scale, wanted)
            && wanted != scale.wanted
        {
            target.resize(&self.client, wanted).await?;
            let message = format!("New size: {wanted}; reason: {}", limit(&spec, scale.wanted));
            self.recorder.record(
                reference(object.as_ref()),
                Component::Autoscaler,
                Severity::Normal,
                "SuccessfulRescale",
                message,
            );
        }
        let after = status(&object, &spec, &target, scale.zip(wanted), &before, &now());
        if after != before {
            let api: Api<HorizontalPodAutoscaler> = Api::namespaced(self.client.clone(), &key.namespace);
            let patch =
                json!({"metadata": {"resourceVersion": object.metadata.resource_version}, "status": after});
            match api.patch_status(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await {
                Ok(_) => {}
                Err(kube::Error::Api(answer)) if answer.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

/// Returns the nearest allowed number of replicas. Zero means that autoscaling is disabled.
fn within(spec: &HorizontalPodAutoscalerSpec, replicas: i32) -> i32 {
    let least = spec.min_replicas.unwrap_or(1);
    if replicas == 0 { 0 } else { replicas.clamp(least, spec.max_replicas.max(least)) }
}

fn limit(spec: &HorizontalPodAutoscalerSpec, replicas: i32) -> &'static str {
    if replicas < spec.min_replicas.unwrap_or(1) {
        "Current number of replicas below Spec.MinReplicas"
    } else {
        "Current number of replicas above Spec.MaxReplicas"
    }
}

/// Returns the reason that Kubernetes gives for a missing metric of this kind, and the API that would provide the metric.
fn missing(spec: &HorizontalPodAutoscalerSpec) -> (&'static str, &'static str) {
    let kind = spec.metrics.iter().flatten().next().map_or("Resource", |metric| metric.type_.as_str());
    match kind {
        "External" => ("FailedGetExternalMetric", "external.metrics.k8s.io"),
        "Object" => ("FailedGetObjectMetric", "custom.metrics.k8s.io"),
        "Pods" => ("FailedGetPodsMetric", "custom.metrics.k8s.io"),
        "ContainerResource" => ("FailedGetContainerResourceMetric", "metrics.k8s.io"),
        _ => ("FailedGetResourceMetric", "metrics.k8s.io"),
    }
}

fn status(
    object: &HorizontalPodAutoscaler,
    spec: &HorizontalPodAutoscalerSpec,
    target: &Target,
    scale: Option<(Scale, i32)>,
    before: &HorizontalPodAutoscalerStatus,
    now: &Time,
) -> HorizontalPodAutoscalerStatus {
    let was = |type_: &str| before.conditions.iter().flatten().find(|condition| condition.type_ == type_);
    let condition = |type_: &str, holds: bool, reason: &str, message: String| {
        let status = if holds { "True" } else { "False" };
        let since =
            was(type_).filter(|was| was.status == status).and_then(|was| was.last_transition_time.clone());
        HorizontalPodAutoscalerCondition {
            type_: type_.into(),
            status: status.into(),
            reason: Some(reason.into()),
            message: Some(message),
            last_transition_time: Some(since.unwrap_or_else(|| now.clone())),
        }
    };
    let conditions = match scale {
        None => {
            let message = format!(
                "the HPA controller was unable to get the target's current scale: there is no {} {}",
                target.kind, target.name
            );
            vec![condition("AbleToScale", false, "FailedGetScale", message)]
        }
        Some((Scale { wanted: 0, .. }, _)) => vec![
            condition("AbleToScale", true, "SucceededGetScale", able()),
            condition(
                "ScalingActive",
                false,
                "ScalingDisabled",
                "scaling is disabled since the replica count of the target is zero".into(),
            ),
        ],
        Some(_) => {
            let (reason, api) = missing(spec);
            let message = format!(
                "the HPA was unable to compute the replica count: nothing serves {api} on this machine, so the replicas \
                 stay between {} and {}",
                spec.min_replicas.unwrap_or(1),
                spec.max_replicas
            );
            vec![
                condition("AbleToScale", true, "SucceededGetScale", able()),
                condition("ScalingActive", false, reason, message),
            ]
        }
    };
    let last_scale_time = match scale {
        Some((scale, wanted)) if scale.wanted != wanted => Some(now.clone()),
        _ => before.last_scale_time.clone(),
    };
    HorizontalPodAutoscalerStatus {
        conditions: Some(conditions),
        current_metrics: before.current_metrics.clone(),
        current_replicas: scale.map(|(scale, _)| scale.current),
        desired_replicas: scale.map_or(0, |(_, wanted)| wanted),
        last_scale_time,
        observed_generation: object.metadata.generation,
    }
}

fn able() -> String {
    "the HPA controller was able to get the target's current scale".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(least: Option<i32>, most: i32) -> HorizontalPodAutoscalerSpec {
        HorizontalPodAutoscalerSpec {
            min_replicas: least,
            max_replicas: most,
            ..HorizontalPodAutoscalerSpec::default()
        }
    }

    #[test]
    fn replicas_are_kept_within_bounds_and_zero_means_off() {
        assert_eq!([0, 1, 2, 3, 9].map(|now| within(&spec(Some(2), 3), now)), [0, 2, 2, 3, 3]);
        assert_eq!(within(&spec(None, 3), 1), 1);
    }

    #[test]
    fn without_metrics_the_status_says_which_api_is_missing() {
        let object = HorizontalPodAutoscaler::default();
        let target = Target { namespace: "ns".into(), kind: "Deployment".into(), name: "d".into() };
        let now = Time(jiff::Timestamp::UNIX_EPOCH);
        let before = HorizontalPodAutoscalerStatus::default();
        let of = |scale| status(&object, &spec(Some(2), 3), &target, scale, &before, &now);
        let scaled = of(Some((Scale { wanted: 1, current: 1 }, 2)));
        let active = &scaled.conditions.as_ref().unwrap()[1];
        assert_eq!((active.type_.as_str(), active.status.as_str()), ("ScalingActive", "False"));
        assert_eq!(active.reason.as_deref(), Some("FailedGetResourceMetric"));
        assert_eq!((scaled.desired_replicas, scaled.last_scale_time), (2, Some(now.clone())));
        let lost = of(None);
        assert_eq!(lost.conditions.unwrap()[0].reason.as_deref(), Some("FailedGetScale"));
    }
}
