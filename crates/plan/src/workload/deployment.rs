//! The Deployment of a half whose replicas are single pods.

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment},
        core::v1::PodTemplateSpec,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use longboat_api::{child_name, labels::component, names::suffix, v1alpha2::WorkloadSpec};

use super::{account, devices, half::Half, metadata, pod, revision};
use crate::{context::Context, draft::Draft, labels, names, selector};

/// Adds the Deployment, and the account and rights that its pods need.
pub(super) fn plan(context: &Context, half: &Half, draft: &mut Draft) -> Result<(), String> {
    let workload = half.spec;
    let name = half.deployment_name(context.name);
    let live_spec = context.own::<Deployment>(&name).and_then(|deployment| deployment.spec.as_ref());
    let live_pod = live_spec.and_then(|spec| spec.template.spec.as_ref());

    let mut pod = workload.template.as_deref().cloned().unwrap_or_default();
    let account = if !half.prefill && account::has_routing_sidecar(&pod) {
        let own_labels = labels::of(component::WORKLOAD, context.name);
        let named = pod.service_account_name.clone();
        let managed = names::workload(context.name);
        let account =
            account::managed_or_named(context, draft, named.as_deref(), managed, own_labels.clone())?;
        let account_name = account.metadata.name.clone().unwrap_or_default();
        let rights = [suffix::ROLE, suffix::ROLE_BINDING].map(|suffix| child_name(&context.name, suffix));
        account::allow_sidecar_reads(context, draft, &account_name, rights, &own_labels)?;
        pod.service_account_name = Some(account_name);
        account::name_pool(context, &mut pod);
        Some(account)
    } else {
        account::of_pod(context, &pod)?
    };
    let events = pod::complete(context, half, &mut pod, account.as_ref(), live_pod).map_err(|error| {
        format!("failed to attach model artifacts to {} deployment: {error}", half.label())
    })?;
    draft.events.extend(events);

    let own_labels = half.deployment_labels(context.name);
    let mut object = context.child_metadata(name, own_labels.clone());
    metadata::propagate_from_service(context, &mut object);
    let mut template = ObjectMeta { labels: Some(own_labels), ..ObjectMeta::default() };
    metadata::propagate_from_service(context, &mut template);
    metadata::propagate_from_spec(&workload.labels, &workload.annotations, &mut template);
    devices::mark_pods(draft, &mut template);
    revision::mark_pods(context, &mut template);
    object.labels.get_or_insert_default().extend(workload.labels.clone());

    let pod_labels = template.labels.clone().unwrap_or_default();
    let selector = selector::plan(half.identity(context.name), &pod_labels, live_spec);
    let deployment = Deployment {
        metadata: object,
        spec: Some(DeploymentSpec {
            // If replicas are unset, an autoscaler or a user sets them on the live object.
            replicas: workload.replicas.or_else(|| live_spec?.replicas),
            selector,
            strategy: strategy(workload),
            template: PodTemplateSpec { metadata: Some(template), spec: Some(pod) },
            ..DeploymentSpec::default()
        }),
        status: None,
    };
    draft.add(context, deployment)
}

fn strategy(workload: &WorkloadSpec) -> Option<DeploymentStrategy> {
    let rollout = workload.rollout_strategy.as_ref()?;
    if rollout.max_surge.is_none() && rollout.max_unavailable.is_none() {
        return None;
    }
    Some(DeploymentStrategy {
        type_: Some("RollingUpdate".into()),
        rolling_update: Some(RollingUpdateDeployment {
            max_surge: rollout.max_surge.clone(),
            max_unavailable: rollout.max_unavailable.clone(),
        }),
    })
}
