//! The cause if an autoscaler does not scale.

use longboat_api::{
    conditions::{Condition, types},
    reasons::condition as reason,
    v1alpha2::LLMInferenceService,
};
use longboat_gateway::{QUEUE_SERIES, is_own_class};
use longboat_key::{Name, Namespace};
use longboat_plan::names;

use crate::{facts::Facts, finding::Cause};

const ANNOTATION: &str = "correct the annotation that the message names, or remove it";
/// The way out under `longboat up`, whose autoscalers read only what its engines and its gateway measure.
const ON_A_CLUSTER: &str =
    "scale this service on a cluster, or here with a prometheus trigger over metrics of its engines";

/// Returns why requests never start a replica, if KEDA takes the service to zero behind our gateway.
pub(crate) fn never_wakes(facts: &Facts, service: &LLMInferenceService) -> Option<Cause> {
    let namespace = Namespace::of(&service.metadata);
    let own = Name::of(&service.metadata);
    let scaled = names::scaled_object(own, false);
    let spec = &facts.snapshot.scaled_objects.get(namespace, Name(&scaled))?.spec;
    if !longboat_gateway::never_wakes(spec.idle_replica_count, spec.min_replica_count, &spec.triggers) {
        return None;
    }
    let gateway = super::routes::of_service(service).iter().find_map(|route| {
        let route = facts.snapshot.http_routes.get(namespace, Name(route))?;
        route.spec.parent_refs.iter().find_map(|parent| {
            let within = parent.namespace.as_deref().map_or(namespace, Namespace);
            let gateway = facts.snapshot.gateways.get(within, Name(&parent.name))?;
            let class = gateway.spec.gateway_class_name.as_str();
            let known = facts.snapshot.gateway_classes.get(Namespace(""), Name(class));
            is_own_class(class, known).then(|| format!("{within}/{}", parent.name))
        })
    })?;
    let text = format!(
        "requests never start a replica when there is none: Gateway {gateway} holds them, and the triggers read only what \
         replicas and their picker measure"
    );
    let fix = format!(
        "add sum({QUEUE_SERIES}{{inference_pool=\"{}\"}}) to the query in spec.scaling.keda.triggers",
        names::pool(own)
    );
    Some(Cause::new("NeverWakes", text, fix).through(format!("ScaledObject {namespace}/{scaled}")))
}

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
        // `ScalingLimited` is the condition that is False if all is well.
        let failed = conditions
            .filter(|found| found.status == "False" && found.type_ != "ScalingLimited")
            .find_map(|found| found.message.clone());
        let cause = failed.unwrap_or_else(|| condition.message.clone());
        let fix = if condition.reason == reason::METRIC_ANNOTATION_ERROR {
            ANNOTATION.to_owned()
        } else if facts.local {
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
        let fix = if condition.reason == reason::METRIC_ANNOTATION_ERROR {
            ANNOTATION.to_owned()
        } else if facts.local {
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
