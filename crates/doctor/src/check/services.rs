//! Each service: does it work, and if not, why?

use longboat_api::{
    annotations,
    conditions::{Condition, ConditionStatus, types},
    reasons::condition as reason,
    v1alpha2::LLMInferenceService,
};
use longboat_plan::names;

use crate::{
    chain::{composition, gateways, pools, proof, routes, scaling, serving, workloads},
    facts::Facts,
    finding::{Cause, Finding},
};

/// Conditions without children of their own, in the order in which the controller works.
const LEAVES: [&str; 15] = [
    types::PRESETS_COMBINED,
    types::MAIN_WORKLOAD_READY,
    types::WORKER_WORKLOAD_READY,
    types::PREFILL_WORKLOAD_READY,
    types::PREFILL_WORKER_WORKLOAD_READY,
    types::SCALING_READY,
    types::PREFILL_SCALING_READY,
    types::TOKENIZER_READY,
    types::SCHEDULER_WORKLOAD_READY,
    types::GATEWAYS_READY,
    types::HTTP_ROUTES_READY,
    types::INFERENCE_POOL_READY,
    types::ROUTER_READY,
    types::SERVING_PROVEN,
    types::KV_TRANSFER_OBSERVED,
];

/// Conditions that say only what others have said, where others have.
const SUMS: [&str; 3] = [types::ROUTER_READY, types::SERVING_PROVEN, types::KV_TRANSFER_OBSERVED];

pub(crate) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    for service in &facts.services {
        let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
        let name = service.metadata.name.as_deref().unwrap_or_default();
        let object = format!("LLMInferenceService {namespace}/{name}");
        if let Some(cause) = unseen(facts, service) {
            findings.push(cause.breaks(object));
            continue;
        }
        if annotations::is_stopped(service.metadata.annotations.as_ref()) {
            continue;
        }
        let conditions = service.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let found = |type_: &str| conditions.iter().find(|condition| condition.type_ == type_);
        if found(types::READY).is_some_and(Condition::is_true) {
            if let Some(cause) = serving::trouble(facts, service) {
                findings.push(cause.breaks(&object));
            } else if let Some(finding) = unproven(facts, service, &object) {
                findings.push(finding);
            }
            if let Some(condition) = found(types::GROUP_DEGRADED).filter(|found| found.is_true()) {
                let fix =
                    "spec.model.name and the adapters of the members: traffic is only shared between equals";
                findings.push(Cause::new("GroupDiverges", condition.message.clone(), fix).threatens(&object));
            }
            continue;
        }
        let mut causes: Vec<Cause> = Vec::new();
        let bad = LEAVES.iter().filter_map(|type_| found(type_)).filter(|found| !found.is_true());
        for condition in bad {
            if SUMS.contains(&condition.type_.as_str()) && !causes.is_empty() {
                continue;
            }
            // Before its layers combine, the controller does not read anything else of a service either.
            if causes
                .iter()
                .any(|cause| cause.fault == "LayersDoNotCombine" || cause.fault == "ConfigNotFound")
            {
                break;
            }
            let Some(cause) = follow(facts, service, condition) else { continue };
            if !causes.iter().any(|known| known.text == cause.text) {
                causes.push(cause.through(step(condition)));
            }
        }
        if causes.is_empty() {
            let said = found(types::READY).map_or_else(String::new, |ready| ready.message.clone());
            let fix = format!("kubectl describe llminferenceservice -n {namespace} {name}");
            causes.push(Cause::new("NotReady", said, fix));
        }
        findings.extend(causes.into_iter().map(|cause| cause.breaks(&object)));
    }
}

/// A service that says Ready and failed its proof of serving, or whose halves cannot work together.
fn unproven(facts: &Facts, service: &LLMInferenceService, object: &str) -> Option<Finding> {
    let conditions = service.status.iter().flat_map(|status| &status.conditions);
    let proofs = [types::SERVING_PROVEN, types::KV_TRANSFER_OBSERVED];
    let failed = conditions.filter(|found| found.is_false() && proofs.contains(&found.type_.as_str()));
    // The transfer can only fail where a token came back.
    if let Some(failed) = failed.max_by_key(|found| found.type_ == types::SERVING_PROVEN) {
        return Some(proof::follow(facts, service, failed).through(step(failed)).breaks(object));
    }
    let refuted = proof::refuted(facts, service).map(|cause| cause.breaks(object));
    refuted.or_else(|| Some(proof::doubtful(facts, service)?.threatens(object)))
}

fn step(condition: &Condition) -> String {
    let status = match condition.status {
        ConditionStatus::True => "True",
        ConditionStatus::False => "False",
        ConditionStatus::Unknown => "Unknown",
    };
    format!("{}={status} {}", condition.type_, condition.reason).trim_end().to_owned()
}

/// A service that the controller has not reconciled in its present form.
fn unseen(facts: &Facts, service: &LLMInferenceService) -> Option<Cause> {
    let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
    let name = service.metadata.name.as_deref().unwrap_or_default();
    let conditions = service.status.as_ref().map_or(&[][..], |status| &status.conditions);
    if service.metadata.deletion_timestamp.is_some() {
        let pending = conditions.iter().find(|condition| {
            condition.type_ == types::GROUP_READY && condition.reason == reason::FINALIZATION_PENDING
        });
        return Some(if let Some(condition) = pending {
            let fix =
                format!("kubectl get httproute -n {namespace}: the other member's route still sends here");
            Cause::new("WaitsForMember", condition.message.clone(), fix)
        } else {
            let fix = "let the controller run: it removes its finalizer when it has cleaned up";
            Cause::new("DeletionPending", "it is being deleted, and a finalizer holds it", fix)
        });
    }
    let seen = service.status.as_ref().map_or(0, |status| status.observed_generation);
    let generation = service.metadata.generation.unwrap_or_default();
    let watched = super::controller::watched(facts.controller.as_ref());
    if seen < generation && !watched.is_empty() && !watched.iter().any(|known| known == namespace) {
        let cause = format!(
            "the controller keeps to namespaces, and {namespace} is none of them: {}",
            watched.join(", ")
        );
        let fix = format!(
            "longboat install --set 'watchNamespaces=[{},{namespace}]', with the other values of the installation",
            watched.join(",")
        );
        return Some(Cause::new("NotWatched", cause, fix));
    }
    (seen < generation).then(|| {
        let cause = format!("the controller has not looked at generation {generation} (it has seen {seen})");
        let fix = if facts.local {
            "wait a moment; if this stays, the log of `longboat up` says more".to_owned()
        } else {
            let system = &facts.snapshot.system_namespace;
            format!("kubectl logs -n {system} deployment/{}", super::controller::NAME)
        };
        Cause::new("NotObserved", cause, fix).through(format!("LLMInferenceService {namespace}/{name}"))
    })
}

/// From a condition to its cause; none where everything behind it is well by now.
fn follow(facts: &Facts, service: &LLMInferenceService, condition: &Condition) -> Option<Cause> {
    let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
    let name = service.metadata.name.as_deref().unwrap_or_default();
    let describe = || {
        let fix = format!("kubectl describe llminferenceservice -n {namespace} {name}");
        Some(Cause::new("NotReady", condition.message.clone(), fix))
    };
    match condition.type_.as_str() {
        types::PRESETS_COMBINED => Some(composition::follow(facts, service, condition)),
        types::SCALING_READY | types::PREFILL_SCALING_READY if facts.local => None,
        types::SCALING_READY | types::PREFILL_SCALING_READY => {
            Some(scaling::follow(facts, service, condition))
        }
        types::GATEWAYS_READY | types::HTTP_ROUTES_READY | types::ROUTER_READY
            if !facts.snapshot.capabilities.gateway_api =>
        {
            let fix = "install the Gateway API (v1) and a controller for it, or take spec.router.route out";
            Some(Cause::new("GatewayApiMissing", "the cluster does not serve the Gateway API", fix))
        }
        types::GATEWAYS_READY => {
            let refs = service.spec.router.iter().flat_map(|router| router.gateway.iter());
            let mut refs = refs.flat_map(|gateway| &gateway.refs);
            refs.find_map(|found| {
                let home = Some(found.namespace.as_str()).filter(|home| !home.is_empty());
                gateways::trouble(facts, home.unwrap_or(namespace), &found.name)
            })
            .or_else(describe)
        }
        types::HTTP_ROUTES_READY => {
            let refs = service.spec.router.iter().filter_map(|router| router.route.as_ref()?.http.as_ref());
            let named: Vec<String> =
                refs.flat_map(|http| &http.refs).map(|found| found.name.clone()).collect();
            let all = if named.is_empty() { vec![names::route(name)] } else { named };
            // A route of ours that could not be made says why in the condition.
            let made = |route: &&String| {
                facts.snapshot.http_routes.get(namespace, route).is_some() || **route != names::route(name)
            };
            let missing = missing_gateway(facts, service);
            missing
                .or_else(|| {
                    all.iter().filter(made).find_map(|route| routes::trouble(facts, namespace, route))
                })
                .or_else(describe)
        }
        types::INFERENCE_POOL_READY => pools::trouble(facts, service).or_else(describe),
        types::ROUTER_READY => describe(),
        types::SERVING_PROVEN | types::KV_TRANSFER_OBSERVED => Some(proof::follow(facts, service, condition)),
        _ => Some(workloads::follow(facts, service, condition)),
    }
}

/// The default Gateway, where the managed route needs it and it is not there.
fn missing_gateway(facts: &Facts, service: &LLMInferenceService) -> Option<Cause> {
    let router = service.spec.router.as_ref()?;
    let managed = router.route.as_ref().is_some_and(|route| route.http.is_none());
    let own = router.gateway.as_ref().is_some_and(|gateway| !gateway.refs.is_empty());
    let ingress = &facts.snapshot.platform.ingress;
    let (namespace, name) = (&ingress.gateway_namespace, &ingress.gateway_name);
    let needed = managed && !own && facts.snapshot.gateways.get(namespace, name).is_none();
    needed.then(|| gateways::trouble(facts, namespace, name)).flatten()
}
