//! A label that shows which prefill and decode pods can exchange KV cache: a hash of the settings that both must agree on. It
//! is opt-in, because an additional label changes the pod template and so replaces the pods.

use k8s_openapi::{
    api::core::v1::{Container, PodSpec},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use longboat_api::{annotations::KV_PAIRING, labels::KV_REVISION, switches};

use super::{account, half::Half, pod_spec::MAIN};
use crate::{context::Context, hash::PartsHash};

/// Arguments that determine the layout of a KV cache and its transfer between engines. They are arguments of engines and of
/// the routing sidecar.
const AGREED: [&str; 16] = [
    "attention-backend",
    "block-size",
    "connector",
    "data-parallel-size",
    "disaggregation-",
    "dtype",
    "ec-connector",
    "kv-",
    "mooncake-bootstrap-port",
    "moriio-",
    "p2p-connector-port",
    "pipeline-parallel-size",
    "quantization",
    "sglang-bootstrap-port",
    "tensor-parallel-size",
    "tokenizer",
];

/// Short forms of such arguments.
const SHORT: [&str; 3] = ["-tp", "-pp", "-dp"];

/// Environment variables with the same effect.
const VARIABLES: [&str; 3] = ["VLLM_KV_CACHE_LAYOUT", "VLLM_MOONCAKE_BOOTSTRAP_PORT", "PYTHONHASHSEED"];

/// Whether pods of different revisions are kept apart: as the service's annotation says, or else the platform. An unknown
/// word counts as unset, because admission refuses it.
pub(crate) fn is_wanted(context: &Context) -> bool {
    let own = switches::value(context.service.metadata.annotations.as_ref(), KV_PAIRING);
    context.spec.prefill.is_some() && own.unwrap_or(context.snapshot.platform.kv_pairing)
}

/// Adds the label to the pods of a template.
pub(super) fn mark_pods(context: &Context, pods: &mut ObjectMeta) {
    if is_wanted(context) {
        pods.labels.get_or_insert_default().insert(KV_REVISION.into(), of(context));
    }
}

/// The revision, which is a hash of both halves: a change of one half concerns the other.
pub(crate) fn of(context: &Context) -> String {
    let mut hash = PartsHash::default();
    hash.add(&context.spec.model.uri.to_string());
    for half in Half::all(context.spec) {
        hash.add(half.role);
        let parallelism = half.spec.parallelism.clone().unwrap_or_default();
        for size in [parallelism.tensor, parallelism.pipeline, parallelism.data, parallelism.data_local] {
            hash.add(&size.map(|size| size.to_string()).unwrap_or_default());
        }
        for pod in half.spec.template.iter().chain(&half.spec.worker) {
            for container in engines(pod) {
                add(&mut hash, container);
            }
        }
    }
    hash.end()
}

/// The container of the engine, and the routing sidecar.
fn engines(pod: &PodSpec) -> impl Iterator<Item = &Container> {
    let all = pod.containers.iter().chain(pod.init_containers.iter().flatten());
    all.filter(|container| container.name == MAIN || container.name == account::ROUTING_SIDECAR)
}

fn add(hash: &mut PartsHash, container: &Container) {
    if container.name == MAIN {
        hash.add(container.image.as_deref().unwrap_or_default());
    }
    let words = container.command.iter().chain(&container.args).flatten();
    let mut found = shared_arguments(&words.map(String::as_str).collect::<Vec<_>>().join(" "));
    for variable in container.env.iter().flatten() {
        let value = variable.value.as_deref().unwrap_or_default();
        if VARIABLES.contains(&variable.name.as_str()) {
            found.push(format!("{}={value}", variable.name));
        }
        // For variables such as VLLM_ADDITIONAL_ARGS, which scripts append to the command line.
        found.extend(shared_arguments(value));
    }
    // The same arguments in another order are the same settings.
    found.sort_unstable();
    for argument in found {
        hash.add(&argument);
    }
}

/// Returns the arguments in a command line or script that both sides must agree on, with their values.
fn shared_arguments(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().filter(|word| *word != "\\").collect();
    let is_agreed = |word: &str| {
        let name = word.split('=').next().unwrap_or_default();
        SHORT.contains(&name)
            || name.strip_prefix("--").is_some_and(|name| {
                AGREED.iter().any(|known| name == *known || (known.ends_with('-') && name.starts_with(known)))
            })
    };
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate().filter(|(_, word)| is_agreed(word)) {
        // A value with spaces, such as JSON, is several words.
        let value = words[at + 1..].iter().take_while(|word| !word.starts_with("--"));
        found.push(std::iter::once(word).chain(value).copied().collect::<Vec<_>>().join(" "));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::shared_arguments;

    #[test]
    fn what_both_sides_must_agree_about_is_found_in_scripts_and_lists() {
        let script = "exec vllm serve /m --port 8000 \\\n  --tensor-parallel-size 2 \\\n  --kv-transfer-config '{\"kv_connector\": \"A\"}' --max-num-seqs=4 -tp=3";
        assert_eq!(
            shared_arguments(script),
            ["--tensor-parallel-size 2", "--kv-transfer-config '{\"kv_connector\": \"A\"}'", "-tp=3"]
        );
        assert_eq!(shared_arguments("--block-size=16 --max-model-len 8"), ["--block-size=16"]);
        assert!(shared_arguments("--enable-prefix-caching --port=1").is_empty());
    }
}
