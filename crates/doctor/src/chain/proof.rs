//! The cause if the proof of serving failed, or if prefill and decode cannot work together: combines the condition of the
//! proof with facts about pods and engines.

use std::collections::BTreeSet;

use k8s_openapi::{
    api::{
        core::v1::{Container, Pod},
        networking::v1::{NetworkPolicy, NetworkPolicyIngressRule},
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use kube::core::{Selector, SelectorExt as _};
use longboat_api::{
    conditions::{Condition, types},
    labels::{NAME, ROLE, role},
    reasons::condition as reason,
    v1alpha2::LLMInferenceService,
};
use longboat_key::{Key, Name, Namespace};
use longboat_plan::kv_connector::{connectors, words};

use crate::{facts::Facts, finding::Cause};

/// The default port at which NIXL's agents meet.
const SIDE_CHANNEL: i32 = 5600;
/// The variable that sets another port.
const SIDE_CHANNEL_PORT: &str = "VLLM_NIXL_SIDE_CHANNEL_PORT";

/// Returns the cause for a condition of the proof.
pub(crate) fn follow(facts: &Facts, service: &LLMInferenceService, condition: &Condition) -> Cause {
    let fix = "do what the message says: the controller repeats the request after a change of pods or routes";
    let as_said = |fault: &'static str| match fault {
        "PrefillNotUsed" => Cause::new("PrefillNotUsed", condition.message.clone(), fix),
        "KVNotTransferred" => Cause::new("KVNotTransferred", condition.message.clone(), fix),
        _ => Cause::new("ServingNotProven", condition.message.clone(), fix),
    };
    if condition.type_ == types::KV_TRANSFER_OBSERVED {
        return match condition.reason.as_str() {
            reason::PREFILL_NOT_USED => {
                no_sidecar(facts, service).unwrap_or_else(|| as_said("PrefillNotUsed"))
            }
            reason::KV_NOT_TRANSFERRED | reason::TRANSFER_FAILED | reason::NO_EVIDENCE => {
                mismatch(facts, service)
                    .or_else(|| blocked_port(facts, service))
                    .unwrap_or_else(|| as_said("KVNotTransferred"))
            }
            _ => as_said("ServingNotProven"),
        };
    }
    let is_named = [reason::MODEL_NOT_SERVED, reason::WRONG_MODEL].contains(&condition.reason.as_str());
    let other =
        is_named.then(|| other_name(facts, service).unwrap_or_else(|| renamed(condition.message.clone())));
    other.unwrap_or_else(|| as_said("ServingNotProven"))
}

/// Returns why a service without a proof would fail: its engines do not know the model by its name.
pub(crate) fn predicted_failure(facts: &Facts, service: &LLMInferenceService) -> Option<Cause> {
    other_name(facts, service)
}

/// Returns why prefill and decode cannot work together, as far as pods and policies show it without a request.
pub(crate) fn disaggregation_problem(facts: &Facts, service: &LLMInferenceService) -> Option<Cause> {
    // Pods in a local cluster run the simulator, which needs no connector.
    if facts.local || service.spec.prefill.is_none() {
        return None;
    }
    mismatch(facts, service).or_else(|| blocked_port(facts, service))
}

/// The pods of a service with one of these roles.
fn pods<'a>(
    facts: &'a Facts,
    service: &'a LLMInferenceService,
    wanted: &'a [&'a str],
) -> impl Iterator<Item = &'a Pod> {
    let (namespace, name) = (Namespace::of(&service.metadata), Name::of(&service.metadata));
    facts.pods.iter().filter(move |pod| {
        let label = |key: &str| pod.metadata.labels.as_ref().and_then(|all| all.get(key)).map(String::as_str);
        Namespace::of(&pod.metadata) == namespace
            && label(NAME) == Some(name.as_str())
            && label(ROLE).is_some_and(|role| wanted.contains(&role))
    })
}

fn label(pod: &Pod) -> String {
    format!("Pod {}", Key::of(pod))
}

fn main_container(pod: &Pod) -> Option<&Container> {
    pod.spec.as_ref()?.containers.iter().find(|container| container.name == "main")
}

/// Returns a cause if clients use another model name than the engines.
fn other_name(facts: &Facts, service: &LLMInferenceService) -> Option<Cause> {
    let (namespace, name) = (Namespace::of(&service.metadata), Name::of(&service.metadata));
    // Composition names the model after the service if no layer names it. The status has the published names.
    let published = format!("publishers/{namespace}/models/");
    let addresses = service.status.iter().flat_map(|status| &status.addresses);
    let published_names = addresses.flat_map(|address| &address.models).map(|model| model.name.as_str());
    let mut names: BTreeSet<&str> =
        published_names.map(|name| name.strip_prefix(&published).unwrap_or(name)).collect();
    if names.is_empty() {
        names.insert(service.spec.model.name.as_deref().unwrap_or(name.as_str()));
    }
    pods(facts, service, &[role::DECODE, role::BOTH, role::PREFILL]).find_map(|pod| {
        let engine = facts.engines.get(&format!("{namespace}/{}", pod.metadata.name.as_deref()?))?;
        let knows = |wanted: &str| {
            engine
                .models
                .iter()
                .any(|model| model == wanted || model.strip_prefix(&published) == Some(wanted))
        };
        if engine.models.is_empty() || names.iter().any(|name| knows(name)) {
            return None;
        }
        let names: Vec<&str> = names.iter().copied().collect();
        let text = format!(
            "the engine serves {}, but clients request {}",
            engine.models.join(", "),
            names.join(", ")
        );
        Some(renamed(text).through(label(pod)))
    })
}

fn renamed(text: String) -> Cause {
    let fix = "make --served-model-name of the engine equal to spec.model.name; the arguments of container main \
         may set another name";
    Cause::new("ModelNameDiffers", text, fix)
}

/// Returns a cause if no sidecar sends prompts to prefill pods.
fn no_sidecar(facts: &Facts, service: &LLMInferenceService) -> Option<Cause> {
    let has_one = |pod: &Pod| {
        let spec = pod.spec.as_ref();
        let first = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten());
        let all = first.chain(spec.into_iter().flat_map(|spec| &spec.containers));
        all.into_iter()
            .any(|container| container.name.contains("sidecar") || words(container).contains("sidecar"))
    };
    let bare = pods(facts, service, &[role::DECODE]).find(|pod| !has_one(pod))?;
    let cause = "the decode pods have no routing sidecar, so nothing sends prompts to the prefill pods";
    let fix =
        "add the routing sidecar to spec.template.initContainers, as in preset config-llm-decode-template";
    Some(Cause::new("SidecarMissing", cause, fix).through(label(bare)))
}

/// Connectors or versions that do not fit each other.
fn mismatch(facts: &Facts, service: &LLMInferenceService) -> Option<Cause> {
    let decode = pods(facts, service, &[role::DECODE]).next()?;
    let prefill = pods(facts, service, &[role::PREFILL]).next()?;
    let (ours, theirs) = (main_container(decode)?, main_container(prefill)?);
    // Other engines configure their transfer by other flags.
    let is_vllm = [ours, theirs].iter().all(|main| words(main).contains("vllm"));
    let (to, from) = (connectors(ours), connectors(theirs));
    let fix = "set the same --kv-transfer-config for prefill and decode, for instance in VLLM_ADDITIONAL_ARGS of \
         container main in spec.template and spec.prefill.template: '{\"kv_connector\": \"NixlConnector\", \
         \"kv_role\": \"kv_both\"}'";
    for (pod, named) in [(decode, &to), (prefill, &from)].into_iter().filter(|_| is_vllm) {
        if named.is_empty() {
            let cause = "the engine has no KV connector (no --kv-transfer-config names one), so every prompt is \
                 computed twice";
            return Some(Cause::new("ConnectorMissing", cause, fix).through(label(pod)));
        }
    }
    if to.is_disjoint(&from) && !to.is_empty() && !from.is_empty() {
        let list = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
        let cause = format!("decode uses {}, prefill uses {}", list(&to), list(&from));
        return Some(Cause::new("ConnectorsDiffer", cause, fix).through(label(decode)));
    }
    let version = |pod: &Pod| facts.engines.get(&Key::of(pod).to_string())?.version.clone();
    let (decoding, prefilling) = (version(decode)?, version(prefill)?);
    (decoding != prefilling).then(|| {
        let cause = format!(
            "the decode engine has version {decoding}, the prefill engine has version {prefilling} ({})",
            label(prefill)
        );
        let fix = "use the same image for container main in spec.template and spec.prefill.template";
        Cause::new("EngineVersionsDiffer", cause, fix).through(label(decode))
    })
}

/// Returns a cause if a NetworkPolicy blocks the port at which the agents of the connector meet.
fn blocked_port(facts: &Facts, service: &LLMInferenceService) -> Option<Cause> {
    let namespace = Namespace::of(&service.metadata);
    pods(facts, service, &[role::PREFILL]).find_map(|pod| {
        let main = main_container(pod)?;
        let mut env = main.env.iter().flatten().filter(|variable| variable.name == SIDE_CHANNEL_PORT);
        let set = env.next().and_then(|variable| variable.value.as_deref()?.parse().ok());
        let port = set.unwrap_or(SIDE_CHANNEL);
        let selecting: Vec<&NetworkPolicy> = facts
            .network_policies
            .iter()
            .filter(|policy| restricts_ingress(policy, namespace, pod))
            .collect();
        let rules = selecting
            .iter()
            .filter_map(|policy| policy.spec.as_ref())
            .flat_map(|spec| spec.ingress.iter().flatten());
        if selecting.is_empty() || rules.into_iter().any(|rule| lets_through(rule, port)) {
            return None;
        }
        let names: Vec<String> = selecting
            .iter()
            .map(|policy| {
                format!("NetworkPolicy {namespace}/{}", policy.metadata.name.as_deref().unwrap_or_default())
            })
            .collect();
        let cause = format!(
            "{} blocks port {port}, at which the KV connector of the engine listens",
            names.join(" and ")
        );
        let fix = format!(
            "add a rule to the policy that allows the decode pods to reach port {port} (TCP) and the ports \
             of the transfer itself"
        );
        Some(Cause::new("TransferPortBlocked", cause, fix).through(label(pod)))
    })
}

/// Whether a policy restricts the incoming connections of a pod.
fn restricts_ingress(policy: &NetworkPolicy, namespace: Namespace<&str>, pod: &Pod) -> bool {
    let Some(spec) = &policy.spec else { return false };
    // A policy without types applies to incoming connections.
    let is_ingress = spec
        .policy_types
        .as_ref()
        .is_none_or(|types| types.is_empty() || types.iter().any(|type_| type_ == "Ingress"));
    let selector = Selector::try_from(spec.pod_selector.clone().unwrap_or_default());
    let labels = pod.metadata.labels.clone().unwrap_or_default();
    is_ingress
        && Namespace::of(&policy.metadata) == namespace
        // The API server refuses operators that do not exist.
        && selector.is_ok_and(|selector| selector.matches(&labels))
}

fn lets_through(rule: &NetworkPolicyIngressRule, port: i32) -> bool {
    // `from` is not judged: a policy must not be blamed for peers that it may well mean.
    let Some(ports) = rule.ports.as_ref().filter(|ports| !ports.is_empty()) else { return true };
    ports.iter().any(|allowed| {
        let is_tcp = allowed.protocol.as_deref().is_none_or(|protocol| protocol == "TCP");
        is_tcp
            && match (&allowed.port, allowed.end_port) {
                (Some(IntOrString::Int(first)), Some(last)) => (*first..=last).contains(&port),
                (Some(IntOrString::Int(one)), None) => *one == port,
                // All ports, or a named port, whose number only the container defines.
                (None | Some(IntOrString::String(_)), _) => true,
            }
    })
}
