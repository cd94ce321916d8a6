//! Checks each service, and finds out why it does not work.

use longboat_api::{
    annotations,
    conditions::{Condition, types},
    labels,
    names::{CONTROLLER, SERVICE_FINALIZER},
    reasons::condition as reason,
    shared_picker::OWN,
    v1alpha2::LLMInferenceService,
};
use longboat_key::{Name, Namespace};

use super::conditions;
use crate::{
    chain::{proof, scaling, serving, workloads},
    facts::Facts,
    finding::{Cause, Finding},
    reinstall,
};

pub(crate) fn check(facts: &Facts, findings: &mut Vec<Finding>) {
    for service in &facts.services {
        let namespace = Namespace::of(&service.metadata);
        let name = Name::of(&service.metadata);
        let object = format!("LLMInferenceService {namespace}/{name}");
        if let Some(cause) = not_reconciled(facts, service) {
            findings.push(cause.broken(object));
            continue;
        }
        if annotations::is_stopped(service.metadata.annotations.as_ref()) {
            continue;
        }
        let conditions = service.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let found = |type_: &str| conditions.iter().find(|condition| condition.type_ == type_);
        findings.extend(conditions.iter().filter_map(|condition| limited(service, condition, &object)));
        findings.extend(scaling::never_wakes(facts, service).map(|cause| cause.warning_about(&object)));
        if found(types::READY).is_some_and(Condition::is_true) {
            if let Some(cause) = serving::cause(facts, service) {
                findings.push(cause.broken(&object));
            } else if let Some(finding) = unproven(facts, service, &object) {
                findings.push(finding);
            } else if let Some(cause) = workloads::failing_pods(facts, service) {
                findings.push(cause.warning_about(&object));
            }
            if let Some(condition) = found(types::GROUP_DEGRADED).filter(|found| found.is_true()) {
                let fix = "use the same spec.model.name and the same adapters in all members of the group";
                findings
                    .push(Cause::new("GroupDiverges", condition.message.clone(), fix).warning_about(&object));
            }
            let group = service.status.iter().find_map(|status| status.router.as_ref()?.group.as_ref());
            if let Some(group) = group.filter(|group| group.members.iter().all(|member| member.weight == 0)) {
                let text =
                    format!("all members of group {} have weight 0, so its address answers 500", group.name);
                let fix = "set spec.router.route.weight of a member";
                findings.push(Cause::new("GroupWithoutTraffic", text, fix).broken(&object));
            }
            continue;
        }
        let mut causes: Vec<Cause> = Vec::new();
        let mut warnings: Vec<Finding> = Vec::new();
        let bad = conditions::ROWS.iter().filter_map(|row| Some((row, found(row.type_)?)));
        for (row, condition) in bad.filter(|(_, found)| !found.is_true()) {
            if row.restates && !causes.is_empty() {
                continue;
            }
            // If a service cannot be composed, the controller does not read anything else of it either.
            if causes.iter().any(|cause| {
                ["LayersDoNotCombine", "ConfigNotFound", "PlatformSettings"].contains(&cause.fault)
            }) {
                break;
            }
            let Some(cause) = (row.follow)(facts, service, condition) else { continue };
            if facts.local && condition.is_beyond_a_laptop() {
                warnings.push(cause.through(step(condition)).warning_about(&object));
                continue;
            }
            if !causes.iter().any(|known| known.text == cause.text) {
                causes.push(cause.through(step(condition)));
            }
        }
        if causes.is_empty() && warnings.is_empty() {
            let message = found(types::READY).map_or_else(String::new, |ready| ready.message.clone());
            causes.push(conditions::not_ready(service, &message));
        }
        findings.extend(causes.into_iter().map(|cause| cause.broken(&object)));
        findings.extend(warnings);
    }
}

/// Returns a finding about a picker that works, and not as the service needs it.
fn limited(service: &LLMInferenceService, condition: &Condition, object: &str) -> Option<Finding> {
    let needs_action = condition.is_true_and_needs_action();
    let namespace = Namespace::of(&service.metadata);
    let name = Name::of(&service.metadata);
    let message = condition.message.clone();
    let cause = match condition.reason.as_str() {
        reason::SHARED_PICKER_LIMITED if needs_action => Cause::new(
            "SharedPickerLimited",
            message,
            format!(
                "raise the flag that the message names, or run `kubectl annotate llminferenceservice -n {namespace} \
                 {name} {}={OWN}`",
                annotations::PICKER
            ),
        ),
        reason::SHARED_PICKER_FAILED if needs_action => Cause::new(
            "SharedPickerFailed",
            message,
            "correct what the message names in spec.router.scheduler: the shared picker tries again by itself",
        ),
        _ => return None,
    };
    Some(cause.through(step(condition)).warning_about(object))
}

/// Returns a finding about a service that reports Ready, but failed its proof of serving, or whose prefill and decode cannot
/// work together.
fn unproven(facts: &Facts, service: &LLMInferenceService, object: &str) -> Option<Finding> {
    let conditions = service.status.iter().flat_map(|status| &status.conditions);
    let proofs = [types::SERVING_PROVEN, types::KV_TRANSFER_OBSERVED];
    let failed = conditions.filter(|found| found.is_false() && proofs.contains(&found.type_.as_str()));
    // The transfer can only fail if a token was returned.
    if let Some(failed) = failed.max_by_key(|found| found.type_ == types::SERVING_PROVEN) {
        return Some(proof::follow(facts, service, failed).through(step(failed)).broken(object));
    }
    let refuted = proof::predicted_failure(facts, service).map(|cause| cause.broken(object));
    refuted.or_else(|| Some(proof::disaggregation_problem(facts, service)?.warning_about(object)))
}

fn step(condition: &Condition) -> String {
    let status = condition.status.as_str();
    format!("{}={status} {}", condition.type_, condition.reason).trim_end().to_owned()
}

/// Returns what to do about these finalizers, each kind once.
fn deletion_fix(finalizers: &[String], service: &LLMInferenceService) -> String {
    let of_children = ["foregroundDeletion", "orphan"];
    let own = |name: &&String| name.as_str() == SERVICE_FINALIZER;
    let garbage = |name: &&String| of_children.contains(&name.as_str());
    let mut fixes = Vec::new();
    if finalizers.iter().any(|name| own(&name)) {
        let own = "check that the controller runs, which removes its own finalizer after it has cleaned up";
        fixes.push(own.to_owned());
    }
    if let Some(name) = finalizers.iter().find(garbage) {
        fixes.push(format!(
            "wait for the garbage collector of Kubernetes, which removes {name} when it is done with the children: run `kubectl get \
             deployments,services,pods -n {} -l {}={},{}={}`, and look for finalizers of those that stay",
            Namespace::of(&service.metadata),
            labels::PART_OF,
            labels::PART_OF_VALUE,
            labels::NAME,
            Name::of(&service.metadata),
        ));
    }
    if let Some(name) = finalizers.iter().find(|name| !own(name) && !garbage(name)) {
        fixes.push(format!("find out who set {name}, and check that its controller runs, which removes it"));
    }
    fixes.join("; ")
}

/// Returns a cause if the controller has not reconciled the current generation of a service.
fn not_reconciled(facts: &Facts, service: &LLMInferenceService) -> Option<Cause> {
    let namespace = Namespace::of(&service.metadata);
    let name = Name::of(&service.metadata);
    let conditions = service.status.as_ref().map_or(&[][..], |status| &status.conditions);
    if service.metadata.deletion_timestamp.is_some() {
        let pending = conditions.iter().find(|condition| {
            condition.type_ == types::GROUP_READY && condition.reason == reason::FINALIZATION_PENDING
        });
        return Some(if let Some(condition) = pending {
            let fix = format!(
                "run `kubectl get httproute -n {namespace}`: the route of another member still sends \
                     requests to this service"
            );
            Cause::new("WaitsForMember", condition.message.clone(), fix)
        } else {
            let finalizers = service.metadata.finalizers.iter().flatten().cloned().collect::<Vec<_>>();
            let text = format!(
                "the service is being deleted, and a finalizer blocks the deletion: {}",
                finalizers.join(", ")
            );
            Cause::new("DeletionPending", text, deletion_fix(&finalizers, service))
        });
    }
    let seen = service.status.as_ref().map_or(0, |status| status.observed_generation);
    let generation = service.metadata.generation.unwrap_or_default();
    let watched = super::controller::watched(facts.controller.as_ref());
    if seen < generation && !watched.is_empty() && !watched.iter().any(|known| known.as_deref() == namespace)
    {
        let cause =
            format!("the controller does not watch namespace {namespace}, only {}", watched.join(", "));
        let values = format!("--set 'watchNamespaces=[{},{namespace}]'", watched.join(","));
        let fix = reinstall::command(facts, &values);
        return Some(Cause::new("NotWatched", cause, fix));
    }
    (seen < generation).then(|| {
        let cause =
            format!("the controller has not processed generation {generation} of the service, only {seen}");
        let fix = if facts.local {
            "wait a moment; if this does not change, read the log of `longboat up`".to_owned()
        } else {
            let system = &facts.snapshot.system_namespace;
            format!("kubectl logs -n {system} deployment/{CONTROLLER}")
        };
        Cause::new("NotObserved", cause, fix).through(format!("LLMInferenceService {namespace}/{name}"))
    })
}
