//! The subject of a proof at this moment, and what the proof waits for.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use longboat_api::{conditions::types, reasons::condition as reason, v1alpha2::LLMInferenceServiceStatus};
use longboat_key::Name;

use super::{
    probe::{address, pods, target},
    verdict::Verdict,
};
use crate::{
    children::{Applied, Children},
    context::Context,
    hash::PartsHash,
    names,
    router::route::in_play,
    status::{context::StatusContext, rollout},
    workload::Half,
};

/// What a proof would be about now.
pub(super) struct ProofSubject {
    /// A hash of what serves: the model and the templates of the pods. Another subject needs another proof.
    pub(super) subject: String,
    /// A hash of which replicas serve and how requests reach them. If it changes, another request is due; the last result
    /// counts until the response comes.
    pub(super) reconciled: String,
    /// Why no request can be sent now.
    pub(super) waiting: Option<Verdict>,
}

// === impl ProofSubject ===

impl ProofSubject {
    /// `holds` returns whether a condition of the service is True. The addresses in `status` must be set already.
    pub(super) fn new(
        reconciled: &StatusContext,
        status: &LLMInferenceServiceStatus,
        holds: impl Fn(&str) -> bool,
    ) -> Self {
        let StatusContext { context, applied } = reconciled;
        Self {
            subject: subject(context, applied),
            reconciled: surroundings(context, applied, status),
            waiting: waiting(context, applied, status, holds),
        }
    }
}

fn add_object(hash: &mut PartsHash, kind: &str, metadata: &ObjectMeta, version: &str) {
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    for text in [kind, &part(&metadata.namespace), &part(&metadata.name), &part(&metadata.uid), version] {
        hash.add(text);
    }
}

fn subject(context: &Context, applied: &Children<Applied>) -> String {
    let mut hash = PartsHash::default();
    hash.add(context.model_name());
    for half in Half::all(context.spec) {
        hash.add(half.role);
        let template = if half.is_group() {
            let set = applied.leader_worker_set(&half.group_name(context.name));
            set.and_then(|set| serde_json::to_string(&set.spec.leader_worker_template).ok())
        } else {
            let deployment = applied.deployment(&half.deployment_name(context.name));
            deployment.and_then(|found| serde_json::to_string(&found.spec.as_ref()?.template).ok())
        };
        hash.add(&template.unwrap_or_default());
    }
    hash.end()
}

fn surroundings(
    context: &Context,
    applied: &Children<Applied>,
    status: &LLMInferenceServiceStatus,
) -> String {
    let mut hash = PartsHash::default();
    hash.add(status.url.as_deref().unwrap_or_default());
    let generation = |metadata: &ObjectMeta| metadata.generation.unwrap_or_default().to_string();
    for route in in_play(context, applied) {
        add_object(&mut hash, "HTTPRoute", &route.metadata, &generation(&route.metadata));
    }
    let snapshot = context.snapshot;
    let external = context.spec.scheduler().and_then(|scheduler| scheduler.external_pool());
    let external = external.and_then(|name| snapshot.inference_pools.get(context.namespace, Name(name)));
    for pool in applied.inference_pools.iter().chain(external) {
        add_object(&mut hash, "InferencePool", &pool.metadata, &generation(&pool.metadata));
    }
    for pool in &applied.inference_pools_x {
        add_object(&mut hash, "InferencePoolX", &pool.metadata, &generation(&pool.metadata));
    }
    for pod in pods(context) {
        add_object(&mut hash, "Pod", &pod.metadata, address(pod).unwrap_or_default());
    }
    hash.end()
}

fn waiting(
    context: &Context,
    applied: &Children<Applied>,
    status: &LLMInferenceServiceStatus,
    holds: impl Fn(&str) -> bool,
) -> Option<Verdict> {
    let needed = [types::PRESETS_COMBINED, types::WORKLOADS_READY, types::ROUTER_READY];
    if let Some(missing) = needed.into_iter().find(|type_| !holds(type_)) {
        return Some(Verdict::unknown(
            reason::WAITING_FOR_READINESS,
            format!("the request for one token waits for {missing}"),
        ));
    }
    let mut serving = 0;
    for half in Half::all(context.spec) {
        let (missing, replicas) = rollout::of_half(context, applied, &half)?;
        if let Some(progress) = missing {
            return Some(roll_out(context, &progress));
        }
        if replicas == 0 {
            let message = format!("the {} workload is scaled to zero, so no pod can answer", half.label());
            return Some(Verdict::unknown(reason::NOTHING_TO_ASK, message));
        }
        serving += replicas;
    }
    let picker =
        context.managed_scheduler().and_then(|_| applied.deployment(&names::scheduler(context.name)));
    if let Some(progress) = picker.and_then(rollout::of_deployment) {
        return Some(roll_out(context, &progress));
    }
    let bundle = &context.snapshot.platform.serving_proof.ca_config_map;
    let system = context.snapshot.system_namespace.as_deref();
    if !bundle.is_empty() && context.snapshot.config_maps.get(system, Name(bundle)).is_none() {
        let message = format!(
            "ConfigMap {system}/{bundle}, which servingProofCA of key longboat in inferenceservice-config names, does not exist"
        );
        return Some(Verdict::unknown(reason::NOTHING_TO_ASK, message));
    }
    if serving == 0 || target(context, status).is_none() {
        let message = "the service has no address, because the Gateway has no address".to_owned();
        return Some(Verdict::unknown(reason::NOTHING_TO_ASK, message));
    }
    None
}

fn roll_out(context: &Context, progress: &str) -> Verdict {
    let pairs = if context.spec.prefill.is_some() {
        "; prefill and decode pods of different revisions may not be able to exchange KV cache"
    } else {
        ""
    };
    Verdict::unknown(
        reason::WAITING_FOR_ROLLOUT,
        format!("the request for one token waits for a roll-out: {progress}{pairs}"),
    )
}
