//! The cause if an autoscaler does not scale.

use longboat_api::{
    conditions::{Condition, types},
    reasons::condition as reason,
    v1alpha2::LLMInferenceService,
};
use longboat_key::{Name, Namespace};
use longboat_plan::names;

use crate::{facts::Facts, finding::Cause};

/// The way out under `longboat up`, whose autoscalers read only what its engines and its gateway measure.
const ON_A_CLUSTER: &str =
    "scale this service on a cluster, or here with a prometheus trigger over metrics of its engines";

pub(crate) fn follow(facts: &Facts, service: &LLMInferenceService, condition: &Condition) -> Cause {
    let namespace = Namespace::of(&service.metadata);
    let own = Name::of(&service.metadata);
    let prefill = condition.type_ == types::PREFILL_SCALING_READY;
    if condition.reason == reason::SCALING_CRD_NOT_FOUND {
        return Cause::new("KedaMissing", condition.message.clone(), "install KEDA, or use scaling by HPA");
    }
    let hpa = names::autoscaler(own, prefill);
    if let Some(found) = facts.snapshot.horizontal_pod_autoscalers.get(namespace, Name(&hpa)) {
        let conditions = found.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let failed = conditions
            .filter(|found| found.status == "False" && found.type_ != "ScalingLimited")
            .find_map(|found| found.message.clone());
        let cause = failed.unwrap_or_else(|| condition.message.clone());
        let fix = if facts.local {
            ON_A_CLUSTER.to_owned()
        } else if cause.contains("metrics") {
            "run `kubectl get apiservices | grep metrics` to check for a metrics server, or for the \
             adapter of that metric"
                .to_owned()
        } else {
            format!(
                "change what the message names in spec.scaling; `kubectl describe hpa -n {namespace} {hpa}` shows what the \
                 autoscaler says then"
            )
        };
        return Cause::new("AutoscalerFails", cause, fix)
            .through(format!("HorizontalPodAutoscaler {namespace}/{hpa}"));
    }
    let scaled = names::scaled_object(own, prefill);
    if let Some(found) = facts.snapshot.scaled_objects.get(namespace, Name(&scaled)) {
        let conditions = found.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let ready = conditions.iter().find(|found| found.type_ == "Ready");
        let step = format!("ScaledObject {namespace}/{scaled}");
        let fix = if facts.local {
            ON_A_CLUSTER.to_owned()
        } else {
            format!(
                "change what the message names in spec.scaling; `kubectl describe scaledobject -n {namespace} {scaled}` shows \
                 what KEDA says then"
            )
        };
        let cause = if let Some(found) = ready.filter(|found| found.status == "False") {
            Cause::new("AutoscalerFails", found.message.clone(), fix)
        } else {
            let fix = "run `kubectl get pods -n keda`, and read the log of keda-operator";
            Cause::new(
                "KedaSilent",
                "KEDA has written no status for the ScaledObject; its operator may not run",
                fix,
            )
        };
        return cause.through(step);
    }
    Cause::new("AutoscalerFails", condition.message.clone(), super::workloads::describe(service))
}
