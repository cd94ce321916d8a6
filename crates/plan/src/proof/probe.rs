//! A proof request, as plain data.

use std::{collections::BTreeSet, fmt::Write, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use longboat_api::{
    labels::{self, KSERVE_COMPONENT, KSERVE_COMPONENT_WORKLOAD, ROLE, role},
    v1alpha2::LLMInferenceServiceStatus,
};
use longboat_key::Name;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    context::Context,
    kv_connector, names,
    router::url::authority,
    scheduler,
    status::context::StatusContext,
    workload::{self, Half},
};

/// What a proof is about, and which attempt it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Id {
    /// A hash of what serves: the model and the templates of the pods.
    pub(crate) subject: String,
    /// A hash of which replicas serve and how requests reach them: pods, routes, pool, address.
    pub(crate) reconciled: String,
    /// Counts from one.
    pub(crate) attempt: u32,
}

/// The role of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The pod computes prompts for decode pods.
    Prefill,
    /// The pod responds to requests.
    Decode,
}

/// A pod whose metrics are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodAddress {
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// Its base URL, without a slash at the end.
    pub url: String,
}

/// A proof request that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// What it proves.
    pub id: Id,
    /// How long to wait before the request is sent.
    pub delay: Duration,
    /// The URL that gets the request, by POST.
    pub url: String,
    /// The header that names the model at this address, if the address serves several.
    pub model_header: Option<(String, String)>,
    /// PEM texts of certificates that are trusted at this address, besides those that the environment trusts.
    pub trusted: Vec<String>,
    /// The pods behind the address: at most 32 of each role.
    pub pods: Vec<PodAddress>,
    /// The certificate that the pods present, as PEM; `None` without TLS.
    pub pod_certificate: Option<String>,
    /// The number of pods that were left out of `pods`.
    pub left_out: usize,
    /// Whether prefill and decode run in separate pods, so that a transfer of KV cache must be observed.
    pub disaggregated: bool,
    /// Whether there is a picker that could choose a prefill pod.
    pub(crate) has_picker: bool,
    /// The connectors by which the halves exchange KV cache, in words.
    pub(crate) connectors: String,
    /// The name that the request asks for.
    pub(crate) model: String,
    /// The model names that a response may have.
    pub(crate) names: Vec<String>,
    /// The number of words in the prompt. Each is at least one token.
    pub(crate) words: usize,
    /// What the user can do if the gateway's certificate is not trusted.
    pub(crate) trust_hint: String,
}

/// The most pods of one role whose metrics are read.
pub(crate) const MAX_PROBED_PODS: usize = 32;
/// The words of a prompt that is prefilled in one pod and decoded in another: several blocks of any engine's KV cache.
pub(crate) const TRANSFER_PROMPT_WORDS: usize = 512;
/// The most words of a prompt. If a picker's threshold needs more, the prompt stays below it.
pub(crate) const MAX_PROMPT_WORDS: usize = 8192;
/// The most tokens of a word with the space before it: no tokenizer has more tokens than bytes.
const MAX_WORD_TOKENS: usize = " w0000".len();
/// The most tokens of everything else: the nonce, special tokens, the token of the response.
const MAX_OTHER_TOKENS: usize = 32;

// === impl Probe ===

impl Probe {
    /// Returns the body of the request. The nonce comes first in the prompt, so that no cache holds any part of the prompt.
    /// Prompt and response have at most `max_model_len` tokens, if that is known and not absurdly small.
    pub fn body(&self, nonce: u64, max_model_len: Option<usize>) -> Vec<u8> {
        let mut prompt = format!("{nonce:016x}");
        let room = max_model_len.map(|tokens| tokens.saturating_sub(MAX_OTHER_TOKENS) / MAX_WORD_TOKENS);
        for word in 0..room.map_or(self.words, |words| words.min(self.words)) {
            let _ = write!(prompt, " w{word:04}");
        }
        let request = json!({"model": self.model, "prompt": prompt, "max_tokens": 1, "temperature": 0.0});
        request.to_string().into_bytes()
    }
}

/// The URL of a service.
pub(super) struct Target {
    url: String,
    /// Whether a header names the model at this URL.
    by_header: bool,
}

/// Returns the URL to send the request to: the one in the status, or the workload's Service if the service has no route.
pub(super) fn target(context: &Context, status: &LLMInferenceServiceStatus) -> Option<Target> {
    if context.spec.route().is_none() {
        let service =
            context.snapshot.services.get(context.namespace, Name(&names::workload_service(context.name)))?;
        let host =
            // A headless Service has the address `None`.
            service.spec.as_ref()?.cluster_ip.as_deref().filter(|ip| !ip.is_empty() && *ip != "None")?;
        let scheme = context.scheme();
        let url = format!("{scheme}://{}/v1/completions", authority(scheme, host, workload::PORT));
        return Some(Target { url, by_header: false });
    }
    let url = status.url.as_deref()?;
    let named = status.addresses.iter().find(|found| found.url.as_deref() == Some(url));
    let kind = named.and_then(|found| found.name.as_deref()).unwrap_or_default();
    let by_header = kind.ends_with("-model-routing");
    Some(Target { url: format!("{}/v1/completions", url.trim_end_matches('/')), by_header })
}

/// Returns the request for `id`, or `None` if the service has no address.
pub(super) fn make(
    reconciled: &StatusContext,
    status: &LLMInferenceServiceStatus,
    id: Id,
    delay: Duration,
) -> Option<Probe> {
    let StatusContext { context, applied } = reconciled;
    let Target { url, by_header } = target(context, status)?;
    let name = context.model_name();
    let published = context.published_name(name);
    let platform = &context.snapshot.platform;
    let disaggregated = context.spec.prefill.is_some();
    let picker = applied.deployment(&names::scheduler(context.name));
    let threshold = picker.map(scheduler::prefill_threshold).unwrap_or_default();
    let words = if disaggregated { TRANSFER_PROMPT_WORDS.max(threshold).min(MAX_PROMPT_WORDS) } else { 0 };
    let (pods, left_out) = pod_addresses(reconciled);
    let system = context.snapshot.system_namespace.as_deref();
    let bundle = platform.serving_proof.ca_config_map.as_str();
    let trusted =
        context.snapshot.config_maps.get(system, Name(bundle)).and_then(|found| found.data.as_ref());
    Some(Probe {
        id,
        delay,
        url,
        model_header: by_header.then(|| (platform.ingress.model_header.clone(), published.clone())),
        trusted: trusted.map(|data| data.values().cloned().collect()).unwrap_or_default(),
        pods,
        pod_certificate: certificate(context),
        left_out,
        disaggregated,
        has_picker: context.spec.scheduler().is_some(),
        connectors: connectors(reconciled),
        model: if by_header { published.clone() } else { name.to_owned() },
        names: vec![name.to_owned(), published],
        words,
        trust_hint: if bundle.is_empty() {
            format!(
                "Put the certificate of its issuer into a ConfigMap in namespace {system}, and set \
                 servingProofCA of key longboat in inferenceservice-config to the name of this ConfigMap"
            )
        } else {
            format!("ConfigMap {system}/{bundle} must contain the certificate of its issuer")
        },
    })
}

/// The connectors that each half names.
fn connectors(reconciled: &StatusContext) -> String {
    let StatusContext { context, applied } = reconciled;
    let named = |half: Half| {
        let (deployment, group) = (half.deployment_name(context.name), half.group_name(context.name));
        let template = applied.serving_pods(&deployment, &group)?;
        let containers = template.spec.iter().flat_map(|pod| &pod.containers);
        Some(containers.flat_map(kv_connector::connectors).collect::<BTreeSet<_>>())
    };
    let list = |half: Half| {
        let all: Vec<String> = named(half).unwrap_or_default().into_iter().collect();
        if all.is_empty() { "none".to_owned() } else { all.join(", ") }
    };
    let decode = list(Half::main(context.spec));
    let prefill = Half::prefill(context.spec).map_or_else(|| decode.clone(), list);
    if decode == prefill {
        format!("connector of prefill and decode: {decode}")
    } else {
        format!("connector of decode: {decode}; of prefill: {prefill}")
    }
}

/// The certificate of the pods; none where they use no TLS.
fn certificate(context: &Context) -> Option<String> {
    if !context.tls() {
        return None;
    }
    let secret = context.snapshot.secrets.get(context.namespace, Name(&names::tls_secret(context.name)))?;
    let pem = secret.data.as_ref()?.get("tls.crt")?;
    Some(String::from_utf8_lossy(&pem.0).into_owned())
}

/// The pods of the service, the picker's included, that have an address and are not being deleted.
pub(super) fn pods<'a>(context: &Context<'a>) -> impl Iterator<Item = &'a Pod> {
    let name = context.name;
    context.snapshot.pods.in_namespace(context.namespace).filter(move |pod| {
        labels::are_of(&pod.metadata, name)
            && pod.metadata.deletion_timestamp.is_none()
            && address(pod).is_some()
    })
}

pub(super) fn address(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.pod_ip.as_deref().filter(|address| !address.is_empty())
}

/// The metrics URLs of the endpoints, and how many endpoints were left out.
fn pod_addresses(reconciled: &StatusContext) -> (Vec<PodAddress>, usize) {
    let context = &reconciled.context;
    let ports = reconciled.applied.inference_pools.iter().flat_map(|pool| &pool.spec.target_ports);
    let port = ports.map(|port| port.number).next().unwrap_or(workload::PORT);
    let (mut found, mut left_out) = (Vec::new(), 0);
    let mut counts = [0_usize; 2];
    for pod in pods(context) {
        if labels::value(&pod.metadata, KSERVE_COMPONENT) != Some(KSERVE_COMPONENT_WORKLOAD) {
            continue;
        }
        let role = match labels::value(&pod.metadata, ROLE) {
            Some(role::PREFILL) => Role::Prefill,
            Some(role::DECODE | role::BOTH) => Role::Decode,
            // Encoders of the user's, for instance.
            _ => continue,
        };
        let count = &mut counts[usize::from(role == Role::Prefill)];
        *count += 1;
        if *count > MAX_PROBED_PODS {
            left_out += 1;
            continue;
        }
        let host = address(pod).unwrap_or_default();
        found.push(PodAddress {
            name: pod.metadata.name.clone().unwrap_or_default(),
            role,
            url: format!("{}://{}", context.scheme(), authority(context.scheme(), host, port)),
        });
    }
    (found, left_out)
}
