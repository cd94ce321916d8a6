//! The subject of a proof at this moment, and what the proof has to wait for.

use std::fmt::Write;

use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::Pod},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use longboat_api::{
    conditions::types,
    foreign::leaderworkerset::LeaderWorkerSet,
    labels::{NAME, PART_OF, PART_OF_VALUE},
    reasons::condition as reason,
    v1alpha2::LLMInferenceServiceStatus,
};
use sha2::{Digest, Sha256};

use crate::{
    children::{Applied, Children},
    context::Context,
    names,
    status::World,
    workload::Half,
};

/// What a proof would be about now.
pub(super) struct Wanted {
    /// A digest of what serves: the model, and the templates of the pods. Another subject needs another proof.
    pub(super) subject: String,
    /// A digest of who serves, and how requests get there. Where it changes, another request is due, and until it has come back
    /// the last one counts.
    pub(super) world: String,
    /// Why no request can be sent now.
    pub(super) waiting: Option<Waiting>,
}

/// Why no request can be sent now.
pub(super) struct Waiting {
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Waiting {
    fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

// === impl Wanted ===

impl Wanted {
    /// `holds` says which of the service's conditions hold. The status has the addresses already.
    pub(super) fn new(
        world: &World,
        status: &LLMInferenceServiceStatus,
        holds: impl Fn(&str) -> bool,
    ) -> Self {
        let World { context, applied } = world;
        Self {
            subject: subject(context, applied),
            world: surroundings(context, applied, status),
            waiting: waiting(context, applied, status, holds),
        }
    }
}

/// A digest of several parts, none of which can be mistaken for another one.
#[derive(Default)]
struct Sum(Sha256);

impl Sum {
    fn add(&mut self, part: &str) {
        self.0.update(part.len().to_le_bytes());
        self.0.update(part);
    }

    fn add_object(&mut self, kind: &str, metadata: &ObjectMeta, version: &str) {
        let part = |text: &Option<String>| text.clone().unwrap_or_default();
        for text in [kind, &part(&metadata.namespace), &part(&metadata.name), &part(&metadata.uid), version] {
            self.add(text);
        }
    }

    fn end(self) -> String {
        self.0.finalize().iter().take(8).fold(String::new(), |mut digest, byte| {
            let _ = write!(digest, "{byte:02x}");
            digest
        })
    }
}

fn subject(context: &Context, applied: &Children<Applied>) -> String {
    let mut sum = Sum::default();
    sum.add(context.model_name());
    for half in Half::all(context.spec) {
        sum.add(half.role);
        let template = if half.is_group() {
            let set = applied.leader_worker_set(&half.group_name(context.name));
            set.and_then(|set| serde_json::to_string(&set.spec.leader_worker_template).ok())
        } else {
            let deployment = applied.deployment(&half.deployment_name(context.name));
            deployment.and_then(|found| serde_json::to_string(&found.spec.as_ref()?.template).ok())
        };
        sum.add(&template.unwrap_or_default());
    }
    sum.end()
}

fn surroundings(
    context: &Context,
    applied: &Children<Applied>,
    status: &LLMInferenceServiceStatus,
) -> String {
    let mut sum = Sum::default();
    sum.add(status.url.as_deref().unwrap_or_default());
    let generation = |metadata: &ObjectMeta| metadata.generation.unwrap_or_default().to_string();
    let managed = applied
        .http_routes
        .iter()
        .find(|route| route.metadata.name.as_ref() == Some(&names::route(context.name)));
    for route in crate::router::route::in_play(context, managed) {
        sum.add_object("HTTPRoute", &route.metadata, &generation(&route.metadata));
    }
    let snapshot = context.snapshot;
    let external = context.scheduler().and_then(|scheduler| scheduler.external_pool());
    let external = external.and_then(|name| snapshot.inference_pools.get(context.namespace, name));
    for pool in applied.inference_pools.iter().chain(external) {
        sum.add_object("InferencePool", &pool.metadata, &generation(&pool.metadata));
    }
    for pool in &applied.inference_pools_x {
        sum.add_object("InferencePoolX", &pool.metadata, &generation(&pool.metadata));
    }
    for pod in pods(context) {
        sum.add_object("Pod", &pod.metadata, address(pod).unwrap_or_default());
    }
    sum.end()
}

/// The pods of the service that have an address and are not about to go, those of the picker among them.
pub(super) fn pods<'a>(context: &Context<'a>) -> impl Iterator<Item = &'a Pod> {
    let name = context.name;
    context.snapshot.pods.in_namespace(context.namespace).filter(move |pod| {
        let label =
            |key: &str| pod.metadata.labels.as_ref().and_then(|labels| labels.get(key)).map(String::as_str);
        label(NAME) == Some(name)
            && label(PART_OF) == Some(PART_OF_VALUE)
            && pod.metadata.deletion_timestamp.is_none()
            && address(pod).is_some()
    })
}

pub(super) fn address(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.pod_ip.as_deref().filter(|address| !address.is_empty())
}

fn waiting(
    context: &Context,
    applied: &Children<Applied>,
    status: &LLMInferenceServiceStatus,
    holds: impl Fn(&str) -> bool,
) -> Option<Waiting> {
    let needed = [types::PRESETS_COMBINED, types::WORKLOADS_READY, types::ROUTER_READY];
    if let Some(missing) = needed.into_iter().find(|type_| !holds(type_)) {
        return Some(Waiting::new(
            reason::WAITING_FOR_READINESS,
            format!("the request for one token waits for {missing}"),
        ));
    }
    let mut serving = 0;
    for half in Half::all(context.spec) {
        let (progress, replicas) = if half.is_group() {
            let set = applied.leader_worker_set(&half.group_name(context.name))?;
            (of_group(set), set.spec.replicas.unwrap_or(1))
        } else {
            let deployment = applied.deployment(&half.deployment_name(context.name))?;
            (of_deployment(deployment), wanted_replicas(deployment))
        };
        if let Some(progress) = progress {
            return Some(roll_out(context, &progress));
        }
        if replicas == 0 {
            let message = format!("the {} workload is scaled to zero: there is no pod to ask", half.label());
            return Some(Waiting::new(reason::NOTHING_TO_ASK, message));
        }
        serving += replicas;
    }
    let picker =
        context.managed_scheduler().and_then(|_| applied.deployment(&names::scheduler(context.name)));
    if let Some(progress) = picker.and_then(of_deployment) {
        return Some(roll_out(context, &progress));
    }
    let bundle = &context.snapshot.platform.serving_proof.ca_config_map;
    let system = &context.snapshot.system_namespace;
    if !bundle.is_empty() && context.snapshot.config_maps.get(system, bundle).is_none() {
        let message = format!(
            "ConfigMap {system}/{bundle}, which servingProofCA of key longboat in inferenceservice-config names, does not exist"
        );
        return Some(Waiting::new(reason::NOTHING_TO_ASK, message));
    }
    if serving == 0 || super::probe::target(context, status).is_none() {
        let message = "the service has no address to send a request to: the Gateway has none";
        return Some(Waiting::new(reason::NOTHING_TO_ASK, message));
    }
    None
}

fn roll_out(context: &Context, progress: &str) -> Waiting {
    let pairs = if context.spec.prefill.is_some() {
        "; prefill and decode pods of different revisions may not be able to exchange KV cache"
    } else {
        ""
    };
    Waiting::new(
        reason::WAITING_FOR_ROLLOUT,
        format!("the request for one token waits for a roll-out: {progress}{pairs}"),
    )
}

fn wanted_replicas(deployment: &Deployment) -> i32 {
    deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// What is missing until all pods of a Deployment are of its newest revision and serve.
fn of_deployment(deployment: &Deployment) -> Option<String> {
    let name = deployment.metadata.name.as_deref().unwrap_or_default();
    let replicas = wanted_replicas(deployment);
    let status = deployment.status.clone().unwrap_or_default();
    if status.observed_generation < deployment.metadata.generation {
        return Some(format!("the newest revision of Deployment {name} has not been looked at"));
    }
    let updated = status.updated_replicas.unwrap_or_default();
    let available = status.available_replicas.unwrap_or_default();
    let old = (status.replicas.unwrap_or_default() - updated).max(0);
    if updated >= replicas && available >= replicas && old == 0 {
        return None;
    }
    let updated = updated.min(replicas);
    let mut progress = format!("Deployment {name} has {updated} of {replicas} pods of the newest revision");
    let _ = write!(progress, ", {} of {replicas} available", available.min(replicas));
    if old > 0 {
        let _ = write!(progress, ", and {old} of an older one");
    }
    Some(progress)
}

/// The same of a LeaderWorkerSet, whose status does not say which generation it is about.
fn of_group(set: &LeaderWorkerSet) -> Option<String> {
    let name = set.metadata.name.as_deref().unwrap_or_default();
    let replicas = set.spec.replicas.unwrap_or(1);
    let status = set.status.clone().unwrap_or_default();
    let (updated, ready) =
        (status.updated_replicas.unwrap_or_default(), status.ready_replicas.unwrap_or_default());
    if updated >= replicas && ready >= replicas {
        return None;
    }
    Some(format!(
        "LeaderWorkerSet {name} has {} of {replicas} groups of the newest revision, {} of {replicas} ready",
        updated.min(replicas),
        ready.min(replicas)
    ))
}
