//! What this release cannot do yet. A service that asks for it is told so, by the field that asks.

use longboat_api::annotations::DRA_DEVICE_CLASS;

use crate::{
    context::Context,
    problem::{Phase, Problem},
    scheduler,
};

const ROUTING_SIDECAR: &str = "llm-d-routing-sidecar";

/// Refuses workloads other than one Deployment of a plain model.
pub(crate) fn workload(context: &Context) -> Result<(), Problem> {
    let spec = context.spec;
    let workload = &spec.workload;
    let lora = spec.model.lora.as_ref().is_some_and(|lora| !lora.adapters.is_empty());
    let tiers =
        workload.kv_cache_offloading.as_ref().is_some_and(|offloading| !offloading.secondary.is_empty());
    let sidecar = workload
        .template
        .iter()
        .flat_map(|pod| pod.init_containers.iter().flatten())
        .any(|container| container.name == ROUTING_SIDECAR);
    let devices =
        context.service.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(DRA_DEVICE_CLASS));
    let asked = [
        (workload.worker.is_some(), "spec.worker (a model over several pods)"),
        (spec.prefill.is_some(), "spec.prefill (prefill apart from decode)"),
        (workload.scaling.is_some(), "spec.scaling"),
        (lora, "spec.model.lora.adapters"),
        (tiers, "spec.kvCacheOffloading.secondary"),
        (sidecar, "spec.template.initContainers[llm-d-routing-sidecar]"),
        (devices, "metadata.annotations[serving.kserve.io/exp-dra-device-class]"),
    ];
    refuse(Phase::Workload, "MainWorkloadReady", &asked)
}

/// Refuses schedulers that need a tokenizer.
pub(crate) fn scheduler(context: &Context) -> Result<(), Problem> {
    let Some(managed) = context.managed_scheduler() else { return Ok(()) };
    let sidecar = managed
        .template
        .iter()
        .flat_map(|pod| &pod.containers)
        .any(|container| container.name == "tokenizer");
    let plugins = scheduler::config::needs_tokenizer(managed);
    let asked = [
        (managed.tokenizer.is_some(), "spec.router.scheduler.tokenizer"),
        (sidecar, "spec.router.scheduler.template.containers[tokenizer]"),
        (
            plugins,
            "a plugin that needs a tokenizer (token-producer, precise-prefix-cache-scorer) in the scheduler's configuration",
        ),
    ];
    refuse(Phase::Router, "SchedulerWorkloadReady", &asked)
}

/// Refuses routes that share their traffic.
pub(crate) fn route(context: &Context) -> Result<(), Problem> {
    let route = context.spec.router.as_ref().and_then(|router| router.route.as_ref());
    let group = route.is_some_and(|route| route.group.is_some());
    refuse(Phase::Router, "HTTPRoutesReady", &[(group, "spec.router.route.group")])
}

fn refuse(phase: Phase, condition: &'static str, asked: &[(bool, &str)]) -> Result<(), Problem> {
    match asked.iter().find(|(asked, _)| *asked) {
        Some((_, field)) => Err(Problem::not_implemented(phase, condition, field)),
        None => Ok(()),
    }
}
