//! The LeaderWorkerSet of a half whose replicas are groups of pods.

use k8s_openapi::{
    api::core::v1::{PodSpec, PodTemplateSpec, ServiceAccount},
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};
use longboat_api::{
    annotations::LEADER_WORKER_SET_PREFIX,
    child_name,
    foreign::leaderworkerset::{
        LeaderWorkerSet, LeaderWorkerSetSpec, LeaderWorkerTemplate, RollingUpdateConfiguration,
        RolloutStrategy, SubGroupPolicy,
    },
    labels::{COMPONENT, KSERVE_COMPONENT, KSERVE_COMPONENT_WORKLOAD, ROLE, component, role},
    names::suffix,
    v1alpha2::{ParallelismSpec, WorkloadSpec},
};

use super::{account, devices, half::Half, metadata, pod, revision};
use crate::{
    context::Context,
    draft::Draft,
    key::Kind,
    labels::{self, Map},
};

/// Adds the LeaderWorkerSet, and the account and rights that its pods need.
pub(super) fn plan(context: &Context, half: &Half, draft: &mut Draft) -> Result<(), String> {
    let workload = half.spec;
    let name = half.group_name(context.name);
    let account = account(context, half, draft)?;
    if !context.snapshot.capabilities.leader_worker_set {
        context.snapshot.check_listed(&[context.namespace], &[Kind::LeaderWorkerSet])?;
        return Err(format!(
            "the cluster does not serve leaderworkerset.x-k8s.io/v1 (LeaderWorkerSet), which {}.worker \
             needs: install LWS (https://lws.sigs.k8s.io), or remove {0}.worker; the controller notices \
             when the API is installed",
            half.field()
        ));
    }
    let live = context.own::<LeaderWorkerSet>(&name);
    let live_pods = live.map(|live| &live.spec.leader_worker_template);
    let mut complete = |pod: &PodSpec, part: &str, live: Option<&PodTemplateSpec>| {
        let mut pod = pod.clone();
        pod.service_account_name.clone_from(&account.metadata.name);
        if !half.prefill {
            account::name_pool(context, &mut pod);
        }
        let live = live.and_then(|template| template.spec.as_ref());
        let events = pod::complete(context, half, &mut pod, Some(&account), live)
            .map_err(|error| format!("failed to attach model artifacts to {part} template: {error}"))?;
        draft.events.extend(events);
        Ok::<_, String>(pod)
    };
    let leader = workload.template.as_ref().map(|pod| {
        let live = live_pods.and_then(|pods| pods.leader_template.as_ref());
        complete(pod, "leader", live)
    });
    let leader = leader.transpose()?;
    let worker = workload.worker.clone().unwrap_or_default();
    let worker = complete(&worker, "worker", live_pods.map(|pods| &pods.worker_template))?;

    let worker_labels = worker_labels(context, half);
    let mut object = context.child_metadata(name, worker_labels.clone());
    propagate(context, &mut object);
    object.labels.get_or_insert_default().extend(workload.labels.clone());
    let template = |labels: Map, pod: PodSpec| {
        let mut template = ObjectMeta { labels: Some(labels), ..ObjectMeta::default() };
        propagate(context, &mut template);
        metadata::propagate_from_spec(&workload.labels, &workload.annotations, &mut template);
        devices::mark_pods(draft, &mut template);
        revision::mark_pods(context, &mut template);
        PodTemplateSpec { metadata: Some(template), spec: Some(pod) }
    };
    let parallelism = workload.parallelism.as_ref();
    let size = parallelism.and_then(ParallelismSpec::size);
    let spread = half.prefill && parallelism.is_some_and(ParallelismSpec::is_data_parallel);
    let set = LeaderWorkerSet {
        metadata: object,
        spec: LeaderWorkerSetSpec {
            // If replicas are unset, an autoscaler or a user sets them on the live object.
            replicas: workload.replicas.or_else(|| live?.spec.replicas),
            leader_worker_template: LeaderWorkerTemplate {
                leader_template: leader.map(|pod| template(leader_labels(context, half), pod)),
                worker_template: template(worker_labels, worker),
                size,
                // The pods of a group compute together. If one restarts, the others wait for ever for the one that was.
                restart_policy: Some("RecreateGroupOnPodRestart".into()),
                sub_group_policy: size
                    .filter(|_| spread)
                    .map(|size| SubGroupPolicy { sub_group_size: Some(size), sub_group_policy_type: None }),
            },
            rollout_strategy: Some(rollout(workload)),
            startup_policy: Some("LeaderCreated".into()),
            network_config: None,
        },
        status: None,
    };
    draft.add(context, set)
}

/// Returns the account of the pods: the one that the leader names, else the one that the workers name, else a managed
/// account. If one of the pods has a routing sidecar, the account also gets its rights.
fn account(context: &Context, half: &Half, draft: &mut Draft) -> Result<ServiceAccount, String> {
    let workload = half.spec;
    let pods = || workload.template.iter().chain(&workload.worker).map(Box::as_ref);
    let named = pods().filter_map(|pod| pod.service_account_name.as_deref()).find(|name| !name.is_empty());
    let mut own_labels = labels::of("", context.name);
    own_labels.remove(COMPONENT);
    let managed = half.group_name(context.name);
    let account = account::managed_or_named(context, draft, named, managed, own_labels.clone())?;
    if !half.prefill && pods().any(account::has_routing_sidecar) {
        let name = account.metadata.name.clone().unwrap_or_default();
        let rights = [suffix::MULTI_NODE_ROLE, suffix::MULTI_NODE_ROLE_BINDING]
            .map(|suffix| child_name(&context.name, suffix));
        account::allow_sidecar_reads(context, draft, &name, rights, &own_labels)?;
    }
    Ok(account)
}

fn propagate(context: &Context, target: &mut ObjectMeta) {
    metadata::propagate_from_service(context, target);
    metadata::propagate_annotations(context, &[LEADER_WORKER_SET_PREFIX], target);
}

/// The labels of leaders. Only the pods that receive requests are endpoints: the leaders, if the group has them.
fn leader_labels(context: &Context, half: &Half) -> Map {
    let name = if half.prefill { component::WORKLOAD_LEADER_PREFILL } else { component::WORKLOAD_LEADER };
    endpoint(labels::of(name, context.name), half.role)
}

fn worker_labels(context: &Context, half: &Half) -> Map {
    let name = if half.prefill { component::WORKLOAD_WORKER_PREFILL } else { component::WORKLOAD_WORKER };
    let labels = labels::of(name, context.name);
    match half.spec.template {
        Some(_) => labels,
        // Not `half.role`: as in the reference, workers are `decode`, even without prefill.
        None => endpoint(labels, if half.prefill { role::PREFILL } else { role::DECODE }),
    }
}

fn endpoint(mut labels: Map, role: &str) -> Map {
    labels.insert(KSERVE_COMPONENT.into(), KSERVE_COMPONENT_WORKLOAD.into());
    labels.insert(ROLE.into(), role.into());
    labels
}

fn rollout(workload: &WorkloadSpec) -> RolloutStrategy {
    let strategy = workload.rollout_strategy.as_ref();
    let strategy =
        strategy.filter(|strategy| strategy.max_surge.is_some() || strategy.max_unavailable.is_some());
    RolloutStrategy {
        type_: "RollingUpdate".into(),
        rolling_update_configuration: strategy.map(|strategy| RollingUpdateConfiguration {
            // For the one that is not set, LeaderWorkerSet's own default.
            max_unavailable: strategy.max_unavailable.clone().or(Some(IntOrString::Int(1))),
            max_surge: strategy.max_surge.clone().or(Some(IntOrString::Int(0))),
        }),
    }
}
