//! The cause if a Deployment or LeaderWorkerSet is not available.

use k8s_openapi::api::apps::v1::Deployment;
use longboat_api::{
    conditions::{Condition, types},
    v1alpha2::LLMInferenceService,
};
use longboat_key::{Name, Namespace, names::is_subdomain};
use longboat_plan::{PickerRefusal, RefusedBy, names};

use super::{absent, pods};
use crate::{facts::Facts, finding::Cause};

/// What to do if only the service's own conditions and events can say more.
pub(crate) fn describe(service: &LLMInferenceService) -> String {
    let (namespace, own) = (Namespace::of(&service.metadata), Name::of(&service.metadata));
    format!(
        "run `kubectl describe llminferenceservice -n {namespace} {own}`: the conditions and events at its end name the field to change"
    )
}

/// Returns why the workload of a condition is not available.
pub(crate) fn follow(facts: &Facts, service: &LLMInferenceService, condition: &Condition) -> Cause {
    let namespace = Namespace::of(&service.metadata);
    let own = Name::of(&service.metadata);
    let describe = describe(service);
    // The controller failed: its message has the reason and, if it is known, what to do.
    if condition.reason.starts_with("Reconcile") || condition.reason.ends_with("Error") {
        if let Some(cause) = absent::storage_secret(facts, service, &condition.message) {
            return cause;
        }
        let validate =
            format!("kubectl get llminferenceservice -n {namespace} {own} -o yaml | longboat validate -");
        let fix = format!("{describe}; if the manifest is the cause, this names the field: {validate}");
        return Cause::new("ControllerFailed", condition.message.clone(), fix);
    }
    let (group, name) = match condition.type_.as_str() {
        types::MAIN_WORKLOAD_READY => (false, names::workload(own)),
        types::PREFILL_WORKLOAD_READY => (false, names::prefill(own)),
        types::WORKER_WORKLOAD_READY => (true, names::workload_group(own)),
        types::PREFILL_WORKER_WORKLOAD_READY => (true, names::prefill_group(own)),
        types::SCHEDULER_WORKLOAD_READY => (false, names::scheduler(own)),
        types::TOKENIZER_READY => (false, names::tokenizer(own)),
        _ => return Cause::new("NotReady", condition.message.clone(), describe),
    };
    if group {
        if facts.snapshot.leader_worker_sets.get(namespace, Name(&name)).is_none() {
            return Cause::new(
                "WorkloadMissing",
                format!("there is no LeaderWorkerSet {namespace}/{name}: {}", condition.message),
                describe,
            );
        }
        let step = format!("LeaderWorkerSet {namespace}/{name}");
        return pods::of_group(facts, namespace, Name(&name))
            .unwrap_or_else(|| silent_group(namespace, Name(&name)))
            .through(step);
    }
    let Some(deployment) = facts.snapshot.deployments.get(namespace, Name(&name)) else {
        let cause = format!("there is no Deployment {namespace}/{name}: {}", condition.message);
        return Cause::new("WorkloadMissing", cause, describe);
    };
    let step = format!("Deployment {namespace}/{name}");
    if condition.type_ == types::SCHEDULER_WORKLOAD_READY
        && let Some(refusal) = picker_config(facts, deployment)
    {
        return refusal.through(step);
    }
    if let Some(message) = longboat_plan::pods::refusal(deployment) {
        return refused(message, namespace, Name(&name)).through(step);
    }
    pods::of_deployment(facts, deployment)
        .unwrap_or_else(|| {
            let desired = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
            if desired == 0 {
                let fix = "raise spec.replicas, or change the autoscaler that scales the workload to zero";
                return Cause::new("ScaledToZero", "the workload has zero replicas", fix);
            }
            let fix = format!(
                "wait, or run `kubectl describe deployment -n {namespace} {name}`, whose conditions and events say what keeps its pods \
                 from starting"
            );
            let mut conditions =
                deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
            let progress = conditions.find(|found| found.type_ == "Progressing" && found.status == "False");
            let cause = progress
                .and_then(|found| found.message.clone())
                .unwrap_or_else(|| "its pods are starting".to_owned());
            Cause::new("RollingOut", cause, fix)
        })
        .through(step)
}

/// Returns why pods of a service that works fail: those of a roll-out that does not end, or of further replicas.
pub(crate) fn failing_pods(facts: &Facts, service: &LLMInferenceService) -> Option<Cause> {
    let (namespace, own) = (Namespace::of(&service.metadata), Name::of(&service.metadata));
    let deployments = [names::workload(own), names::prefill(own), names::scheduler(own)];
    let groups = [names::workload_group(own), names::prefill_group(own)];
    let of_deployments = deployments.iter().filter_map(|name| {
        let deployment = facts.snapshot.deployments.get(namespace, Name(name))?;
        Some(pods::of_deployment(facts, deployment)?.through(format!("Deployment {namespace}/{name}")))
    });
    let of_groups = groups.iter().filter_map(|name| {
        let cause = pods::of_group(facts, namespace, Name(name))?;
        Some(cause.through(format!("LeaderWorkerSet {namespace}/{name}")))
    });
    of_deployments.chain(of_groups).find(|cause| cause.fault != "PodStarting")
}

/// Returns the cause if this build's picker does not start with its configuration. Another picker may start with it.
fn picker_config(facts: &Facts, deployment: &Deployment) -> Option<Cause> {
    let images = &facts.snapshot.platform.images;
    let refusal = PickerRefusal::of(deployment, &facts.snapshot.config_maps, images)?;
    let fix = "correct spec.router.scheduler.config; `longboat validate` names the line in the manifest";
    // In a local cluster, the images of other pickers run this build's picker too.
    let is_ours = facts.local || refusal.is_ours(images);
    let is_refused = is_ours && refusal.by == RefusedBy::ThisBuild;
    is_refused.then(|| Cause::new("PickerConfigRefused", refusal.to_string(), fix))
}

/// Returns the cause if pods may not be created.
fn refused(message: &str, namespace: Namespace<&str>, name: Name<&str>) -> Cause {
    if message.contains("exceeded quota") {
        let fix = format!(
            "raise the quota (`kubectl describe resourcequota -n {namespace}`), or request less in the pod \
             template"
        );
        return Cause::new("QuotaExceeded", message, fix);
    }
    if message.contains("violates PodSecurity") {
        let fix = format!(
            "change the securityContext in the pod template, or the label \
             pod-security.kubernetes.io/enforce of namespace {namespace}"
        );
        return Cause::new("PodSecurity", message, fix);
    }
    // `pods "p" is forbidden: error looking up service account NAMESPACE/NAME: serviceaccount "NAME" not found`.
    if message.contains("serviceaccount") && message.contains("not found") {
        let account =
            message.split_once(&format!("{namespace}/")).and_then(|(_, rest)| rest.split(':').next());
        let account = account.filter(|name| is_subdomain(name)).unwrap_or("NAME");
        let fix = format!(
            "run `kubectl create serviceaccount -n {namespace} {account}`, or remove serviceAccountName from the pod template"
        );
        return Cause::new("AccountMissing", message, fix);
    }
    let fix = format!(
        "change what the message names in the pod template, or in the policy or webhook that refuses the pods; `kubectl describe \
         deployment -n {namespace} {name}` shows whether pods are created then"
    );
    Cause::new("PodsRefused", message, fix)
}

fn silent_group(namespace: Namespace<&str>, name: Name<&str>) -> Cause {
    let cause = "the LeaderWorkerSet has no pods; its controller may not run";
    let fix = format!(
        "run `kubectl describe leaderworkerset -n {namespace} {name}`, and check the pods in namespace \
         lws-system"
    );
    Cause::new("GroupControllerSilent", cause, fix)
}

/// The cause if pods exist, none is ready, and none has a reason.
pub(crate) fn no_ready_pod(namespace: Namespace<&str>) -> Cause {
    Cause::new("NoReadyPods", "none of its pods is ready", format!("kubectl get pods -n {namespace}"))
}
