//! The tokenizer: a Deployment and a Service that turn prompts into tokens for the picker.

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentSpec},
        core::v1::{PodSpec, PodTemplateSpec, Service, ServiceAccount, ServicePort, ServiceSpec},
    },
    apimachinery::pkg::{apis::meta::v1::ObjectMeta, util::intstr::IntOrString},
};
use longboat_api::{labels::component, picker_plugins::TOKENIZER_USERS, v1alpha2::SchedulerSpec};
use longboat_compose::Warning;
use longboat_key::Name;

use super::config;
use crate::{
    context::Context,
    draft::Draft,
    env, labels, names, selector,
    workload::{
        pod_spec::{MAIN, container},
        security,
        storage::{self, Attachment},
    },
};

/// The name of the tokenizer container beside an older picker.
pub(super) const SIDECAR: &str = "tokenizer";
/// The path of the model in the tokenizer, which is also the model name that the picker uses.
pub(super) const MODEL: &str = "/mnt/models/base";
const PORT: i32 = 8000;
const PORT_NAME: &str = "render-http";
/// The files that a tokenizer reads. Weights are not among them.
const PATTERNS: &str = r#"["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.json", "merges.txt", "config.json", "generation_config.json"]"#;

/// Whether the service needs its own tokenizer.
pub(crate) fn is_wanted(context: &Context) -> bool {
    context.managed_scheduler().is_some_and(|scheduler| {
        scheduler.tokenizer.is_some() || TOKENIZER_USERS.iter().any(|plugin| config::lists(scheduler, plugin))
    })
}

/// The URL at which the picker reaches the tokenizer.
pub(super) fn url(context: &Context) -> String {
    let scheme = context.scheme();
    let service = names::tokenizer(context.name);
    format!("{scheme}://{service}.{}.svc.{}:{PORT}", context.namespace, context.snapshot.cluster_domain)
}

/// Adds the Deployment and Service of the tokenizer, if the service needs one.
pub(super) fn plan(
    context: &Context,
    scheduler: &SchedulerSpec,
    account: &ServiceAccount,
    draft: &mut Draft,
) -> Result<(), String> {
    if !is_wanted(context) {
        return Ok(());
    }
    let template = scheduler.tokenizer.as_ref().and_then(|tokenizer| tokenizer.template.as_deref());
    let Some(template) = template.filter(|pod| !pod.containers.is_empty()) else {
        return Err(
            "the picker's configuration needs a tokenizer, but presets provide none if the configuration \
             comes from a ConfigMap: set spec.router.scheduler.tokenizer to {}"
                .into(),
        );
    };
    let name = names::tokenizer(context.name);
    let live =
        context.snapshot.deployments.get(context.namespace, Name(&name)).and_then(|live| live.spec.as_ref());
    let mut pod = template.clone();
    let mut attachment =
        Attachment::of_model(context, Some(account), live.and_then(|spec| spec.template.spec.as_ref()));
    attachment.path = MODEL;
    draft.events.extend(attach(&mut pod, &attachment)?);
    security::restrict(context, &mut pod);

    let own_labels = labels::of(component::TOKENIZER, context.name);
    let template = ObjectMeta { labels: Some(own_labels.clone()), ..ObjectMeta::default() };
    let deployment = Deployment {
        metadata: context.child_metadata(name.clone(), own_labels.clone()),
        spec: Some(DeploymentSpec {
            // One replica: each replica would have its own cache, which is worth little unless it is shared.
            replicas: Some(1),
            selector: selector::plan(own_labels.clone(), &own_labels, live),
            template: PodTemplateSpec { metadata: Some(template), spec: Some(pod) },
            ..DeploymentSpec::default()
        }),
        status: None,
    };
    draft.add(context, deployment)?;
    let port = ServicePort {
        name: Some(PORT_NAME.into()),
        port: PORT,
        protocol: Some("TCP".into()),
        target_port: Some(IntOrString::String(PORT_NAME.into())),
        ..ServicePort::default()
    };
    let service = Service {
        metadata: context.child_metadata(name, own_labels.clone()),
        spec: Some(ServiceSpec {
            selector: Some(own_labels),
            ports: Some(vec![port]),
            ..ServiceSpec::default()
        }),
        status: None,
    };
    draft.add(context, service)
}

/// Mounts the model in the tokenizer container of an older picker's pod.
pub(super) fn attach_sidecar(
    context: &Context,
    pod: &mut PodSpec,
    account: &ServiceAccount,
    live: Option<&PodSpec>,
) -> Result<Vec<Warning>, String> {
    if container(pod, SIDECAR).is_none() {
        return Ok(Vec::new());
    }
    let mut attachment = Attachment::of_model(context, Some(account), live);
    (attachment.container, attachment.path) = (SIDECAR, MODEL);
    let events = attach(pod, &attachment)?;
    let initializers = pod.init_containers.iter_mut().flatten();
    for container in initializers.filter(|container| container.name == storage::INITIALIZER) {
        env::add(container, env::literal("STORAGE_ALLOW_PATTERNS", PATTERNS));
    }
    Ok(events)
}

fn attach(pod: &mut PodSpec, attachment: &Attachment) -> Result<Vec<Warning>, String> {
    storage::attach(pod, attachment).map_err(|error| {
        format!("failed to attach model artifacts to the tokenizer's {MAIN} container: {error}")
    })
}
