//! The Deployment of the picker.

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec, DeploymentStrategy},
        core::v1::{PodSpec, PodTemplateSpec, ServiceAccount},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use longboat_api::{
    engine::{Engine, VLLM},
    labels::component,
    picker_plugins::PRECISE_SCORER,
    reasons::event::{SCHEDULER_CONFIG_KEPT, TOKENIZER_REMOVED},
    v1alpha2::SchedulerSpec,
};
use longboat_compose::{Warning, version};
use longboat_key::Name;

use super::{
    config::{self, Origin},
    service, sharing, tokenizer, transform,
};
use crate::{
    context::Context,
    draft::Draft,
    flags, labels, names, selector, tracing,
    workload::{
        pod_spec::{MAIN, container, container_mut, main_args},
        security,
    },
};

const METRICS_PATH: &str = "model-server-metrics-path";
const LEADER_ELECTION: &str = "ha-enable-leader-election";

/// Plans the Deployment: the template with its configuration, migrated to the picker's version.
pub(super) fn plan(
    context: &Context,
    scheduler: &SchedulerSpec,
    account: &ServiceAccount,
    draft: &mut Draft,
) -> Result<(), String> {
    let name = names::scheduler(context.name);
    let present = context.snapshot.deployments.get(context.namespace, Name(&name));
    let live = present.and_then(|live| live.spec.as_ref());
    let mut origin = Origin::Default;
    let mut pod = scheduler.template.as_deref().cloned().unwrap_or_default();
    if let Some(main) = container_mut(&mut pod, MAIN) {
        // Only the leader may answer: each of several pickers would see a part of the load.
        if scheduler.replicas.is_some_and(|replicas| replicas > 1) {
            let args = main.args.get_or_insert_default();
            if !flags::has(args, LEADER_ELECTION) {
                args.push(format!("--{LEADER_ELECTION}"));
            }
        }
        let path = Engine::of_spec(context.spec).metrics;
        // Of a service without a runtime, nothing changes.
        if context.spec.runtime().is_some() && path != VLLM.metrics {
            let args = main.args.get_or_insert_default();
            if !flags::has(args, METRICS_PATH) {
                args.push(format!("--{METRICS_PATH}={path}"));
            }
        }
        let live_args = live.and_then(|spec| main_args(spec.template.spec.as_ref()?));
        origin = config::attach(context, main, config::inline_text(scheduler), live_args);
        tracing::scheduler(context, main);
    }
    let declared = scheduler.annotations.get(version::ANNOTATION).map(String::as_str).unwrap_or_default();
    let live_pod = live.and_then(|spec| spec.template.spec.as_ref());
    draft.events.extend(tokenizer::attach_sidecar(context, &mut pod, account, live_pod)?);
    let has_tokenizer = |pod: &PodSpec| container(pod, tokenizer::SIDECAR).is_some();
    let was_given = has_tokenizer(&pod);
    if was_given {
        transform::use_sidecar(&mut pod);
    }
    let url = tokenizer::is_wanted(context).then(|| tokenizer::url(context));
    transform::apply(&mut pod, declared, url.as_deref()).map_err(|error| {
        format!(
            "failed to build expected scheduler deployment: failed to apply scheduler migrations: {error}"
        )
    })?;

    if was_given && !has_tokenizer(&pod) {
        draft.events.push(Warning {
            reason: TOKENIZER_REMOVED,
            message: format!(
                "container {} of spec.router.scheduler.template is removed, because the picker's configuration has no \
                 {PRECISE_SCORER}; the init container that downloads its files stays. Set spec.router.scheduler.tokenizer instead.",
                tokenizer::SIDECAR
            ),
        });
    }
    security::restrict(context, &mut pod);

    let own_labels = labels::of(component::SCHEDULER, context.name);
    let mut pod_labels = own_labels.clone();
    pod_labels.extend(scheduler.labels.clone());
    let template = ObjectMeta {
        labels: Some(pod_labels.clone()),
        annotations: Some(scheduler.annotations.clone()).filter(|all| !all.is_empty()),
        ..ObjectMeta::default()
    };
    if origin == Origin::LivePicker {
        draft.events.push(kept(context));
    }
    let selector = selector::plan(own_labels, &pod_labels, live);
    let mut deployment = Deployment {
        metadata: context.child_metadata(name, pod_labels),
        spec: Some(DeploymentSpec {
            // If replicas are unset, an autoscaler or a user sets them on the live object.
            replicas: scheduler.replicas.or_else(|| live?.replicas),
            selector,
            // Two pickers at once would each see only half of the load.
            strategy: Some(DeploymentStrategy { type_: Some("Recreate".into()), rolling_update: None }),
            template: PodTemplateSpec { metadata: Some(template), spec: Some(pod) },
            ..DeploymentSpec::default()
        }),
        status: None,
    };
    sharing::apply(context, service::name(context), present, &mut deployment);
    draft.add(context, deployment)
}

/// Returns a warning that a picker keeps its configuration, which may not suit its service.
fn kept(context: &Context) -> Warning {
    Warning {
        reason: SCHEDULER_CONFIG_KEPT,
        message: format!(
            "The picker of {} keeps its current configuration, which is not the default for this service. \
             Set spec.router.scheduler.config.inline, or stop and start the service to get the default",
            context.name
        ),
    }
}
