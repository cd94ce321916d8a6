//! Triggers by CPU or memory that KEDA's webhook refuses, because containers do not say how much they need.

use k8s_openapi::{
    api::core::v1::{Container, PodSpec},
    apimachinery::pkg::api::resource::Quantity as Amount,
};
use longboat_api::{
    foreign::scaledobject::ScaledObject,
    v1alpha2::{KedaTrigger, LLMInferenceService},
};
use longboat_key::{Name, Namespace};
use longboat_plan::{Plan, names};
use longboat_quantity::Quantity;

use super::absent::ManifestObjects;
use crate::finding::Advice;

/// Returns a warning for each trigger by CPU or memory of which a container of the Deployment has neither a request nor a limit.
pub(super) fn of_service(service: &LLMInferenceService, plan: &Plan, given: &ManifestObjects) -> Vec<Advice> {
    // A LimitRange may give the containers their requests.
    if given.has_any("LimitRange", Namespace::of(&service.metadata)) {
        return Vec::new();
    }
    let children = &plan.children;
    let mut all = Vec::new();
    for (path, prefill) in [("spec", false), ("spec.prefill", true)] {
        let name = names::scaled_object(Name::of(&service.metadata), prefill);
        let Some(scaled) = children.named::<ScaledObject>(&name) else { continue };
        let target = &scaled.spec.scale_target_ref.name;
        // KEDA looks at Deployments only, and not at LeaderWorkerSets.
        let workload = children.deployment(target);
        let Some(pod) = workload.and_then(|one| one.spec.as_ref()?.template.spec.as_ref()) else { continue };
        all.extend(scaled.spec.triggers.iter().enumerate().filter_map(|(at, trigger)| {
            let container = without(pod, trigger)?;
            let resource = &trigger.type_;
            Some(Advice::warning(
                format!("{path}.scaling.keda.triggers[{at}].type"),
                "TriggerRefused",
                format!(
                    "is {resource}, and container {} of Deployment {target} has no {resource} request: KEDA refuses the trigger, so \
                     nothing scales the workload",
                    container.name
                ),
                format!(
                    "set `resources.requests.{resource}` of the container, or name another one in `metadata.containerName` of the trigger"
                ),
            ))
        }));
    }
    all
}

/// Returns the first container that a trigger is about and that has neither a request nor a limit of its resource.
fn without<'a>(pod: &'a PodSpec, trigger: &KedaTrigger) -> Option<&'a Container> {
    if !["cpu", "memory"].contains(&&*trigger.type_) {
        return None;
    }
    let name =
        trigger.metadata.as_ref().and_then(|all| all.get("containerName")).filter(|name| !name.is_empty());
    let is_positive =
        |amount: &Amount| Quantity::parse(&amount.0).is_some_and(|amount| amount.as_f64() > 0.0);
    pod.containers.iter().filter(|container| name.is_none_or(|name| *name == container.name)).find(
        |container| {
            let amounts = container.resources.iter().flat_map(|all| [&all.requests, &all.limits]);
            !amounts.flatten().filter_map(|amounts| amounts.get(&trigger.type_)).any(is_positive)
        },
    )
}
