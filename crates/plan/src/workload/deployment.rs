//! The Deployment of a single-node model server (contract/02 §11.3).

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy, RollingUpdateDeployment},
        core::v1::{PodSpec, PodTemplateSpec, ServiceAccount},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use longboat_api::labels::{KSERVE_COMPONENT, KSERVE_COMPONENT_WORKLOAD, ROLE, component, role};

use super::{
    metadata, service_account,
    storage::{self, Attachment, StorageError},
};
use crate::{context::Context, event::PlannedEvent, labels, names, owner, selector, tracing};

/// The Deployment as it should be, and what there is to say about it.
pub(super) fn plan(context: &Context) -> Result<(Deployment, Vec<PlannedEvent>), String> {
    let workload = &context.spec.workload;
    let name = names::workload(context.name);
    let live = context.snapshot.deployments.get(context.namespace, &name);
    let live_spec = live.and_then(|deployment| deployment.spec.as_ref());
    let live_pod = live_spec.and_then(|spec| spec.template.spec.as_ref());

    let mut own_labels = labels::of(component::WORKLOAD, context.name);
    own_labels.insert(KSERVE_COMPONENT.into(), KSERVE_COMPONENT_WORKLOAD.into());
    own_labels.insert(ROLE.into(), role::BOTH.into());

    let mut pod = workload.template.clone().unwrap_or_default();
    let account = service_account::of_pod(context, &pod)?;
    let events = attach_model(context, &mut pod, account, live_pod)
        .map_err(|error| format!("failed to attach model artifacts to main deployment: {error}"))?;
    if let Some(main) = pod.containers.iter_mut().find(|container| container.name == storage::MAIN) {
        tracing::server(context, main, "inference-server-decode");
    }

    let mut object = owner::child(context, name, own_labels.clone());
    metadata::propagate_from_service(context, &mut object);
    let mut template = ObjectMeta { labels: Some(own_labels.clone()), ..ObjectMeta::default() };
    metadata::propagate_from_service(context, &mut template);
    metadata::propagate_from_spec(&workload.labels, &workload.annotations, &mut template);
    object.labels.get_or_insert_default().extend(workload.labels.clone());

    let pod_labels = template.labels.clone().unwrap_or_default();
    let selector = selector::plan(own_labels, &pod_labels, live_spec);
    let deployment = Deployment {
        metadata: object,
        spec: Some(DeploymentSpec {
            // Unset replicas belong to whoever scales the workload.
            replicas: workload.replicas.or_else(|| live_spec?.replicas),
            selector,
            strategy: strategy(context),
            template: PodTemplateSpec { metadata: Some(template), spec: Some(pod) },
            ..DeploymentSpec::default()
        }),
        status: None,
    };
    Ok((deployment, events))
}

fn attach_model(
    context: &Context,
    pod: &mut PodSpec,
    account: Option<&ServiceAccount>,
    live: Option<&PodSpec>,
) -> Result<Vec<PlannedEvent>, StorageError> {
    let model = &context.spec.model;
    let uri = model.uri.to_string();
    let confidential = model.confidential.as_ref().filter(|confidential| confidential.enabled);
    storage::attach(
        pod,
        &Attachment {
            service: context.service,
            namespace: context.namespace,
            uri: &uri,
            enabled: context.spec.storage_initializer_enabled(),
            confidential: confidential
                .map(|confidential| confidential.resource_id.as_deref().unwrap_or_default()),
            platform: &context.snapshot.platform,
            system_namespace: &context.snapshot.system_namespace,
            service_account: account,
            secrets: &context.snapshot.secrets,
            live,
        },
    )
}

fn strategy(context: &Context) -> Option<DeploymentStrategy> {
    let rollout = context.spec.workload.rollout_strategy.as_ref()?;
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
