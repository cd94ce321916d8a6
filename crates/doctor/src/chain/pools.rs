//! The cause if no Gateway accepts a pool.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use longboat_api::v1alpha2::LLMInferenceService;
use longboat_key::{Name, Namespace};
use longboat_plan::names;

use super::{condition, reason_and_message, routes, workloads};
use crate::{facts::Facts, finding::Cause};

/// Returns what is wrong with the pool of a service. If the pool waits for the service's route, this is the cause for the
/// route.
pub(crate) fn cause(facts: &Facts, service: &LLMInferenceService) -> Option<Cause> {
    let namespace = Namespace::of(&service.metadata);
    let own = Name::of(&service.metadata);
    let scheduler = service.spec.scheduler()?;
    let name = scheduler.external_pool().map_or_else(|| names::pool(own), str::to_owned);
    let capabilities = facts.snapshot.capabilities;
    if !capabilities.inference_pool && !capabilities.inference_pool_x {
        let fix = "install the Gateway API inference extension, or remove spec.router.scheduler";
        return Some(Cause::new("PoolApiMissing", "the cluster does not serve the InferencePool API", fix));
    }
    let pool = facts.snapshot.inference_pools.get(namespace, Name(&name));
    let old = facts.snapshot.inference_pools_x.get(namespace, Name(&name));
    let step = format!("InferencePool {namespace}/{name}");
    if pool.is_none() && old.is_none() {
        let fix = if scheduler.external_pool().is_some() {
            "create the InferencePool, or name another one in spec.router.scheduler.pool.ref".to_owned()
        } else {
            workloads::describe(service)
        };
        return Some(Cause::new("PoolMissing", format!("there is no {step}"), fix));
    }
    let said_of: Vec<&[Condition]> = pool
        .iter()
        .flat_map(|pool| pool.status.iter().flat_map(|status| &status.parents))
        .map(|parent| parent.conditions.as_slice())
        .chain(
            old.iter()
                .flat_map(|pool| pool.status.iter().flat_map(|status| &status.parent))
                .map(|parent| parent.conditions.as_slice()),
        )
        .collect();
    let accepted = |conditions: &&[Condition]| {
        condition(conditions, "Accepted").is_some_and(|found| found.status == "True")
    };
    if said_of.iter().any(accepted) {
        return None;
    }
    let refusal = said_of.iter().find_map(|all| {
        condition(all, "Accepted").filter(|found| found.status == "False" && found.reason != "Pending")
    });
    if let Some(found) = refusal {
        let fix = format!(
            "change what the message names in spec.router.scheduler.pool, or use a Gateway controller that takes it; `kubectl describe \
             inferencepool -n {namespace} {name}` shows what the controller says then"
        );
        return Some(Cause::new("PoolRefused", reason_and_message(found), fix).through(step));
    }
    if service.spec.route().is_none() {
        let fix = "set `spec.router.route: {}`";
        let cause = "no route sends requests to the pool, so no Gateway accepts it";
        return Some(Cause::new("PoolWithoutRoute", cause, fix).through(step));
    }
    let of_route = |route: String| routes::cause(facts, namespace, Name(&route));
    if let Some(cause) = routes::of_service(service).into_iter().find_map(of_route) {
        return Some(cause.through(step));
    }
    let cause = "no Gateway has accepted the pool, although the route is accepted; the Gateway's controller may \
         not support InferencePools";
    let fix = "use a Gateway controller with the inference extension, or remove spec.router.scheduler";
    Some(Cause::new("PoolNotSeen", cause, fix).through(step))
}
