//! Ranks of vLLM that have no device.

use k8s_openapi::api::core::v1::Container;
use longboat_api::{fields::devices, v1alpha2::LLMInferenceServiceSpec};

use super::{super::Advice, uses::Uses};

/// Flags that put ranks on other machines too.
const SPREAD: [&str; 7] = [
    "--nnodes",
    "--distributed-executor-backend",
    "--data-parallel-address",
    "--data-parallel-rank",
    "--data-parallel-start-rank",
    "--data-parallel-external-lb",
    "--data-parallel-hybrid-lb",
];

/// The ranks of each pod, also of one of several.
const LOCAL: &str = "--data-parallel-size-local";

/// Flags that spread one rank over several pods.
const SPREAD_RANKS: [&str; 2] = ["--nnodes", "--distributed-executor-backend"];

/// Finds arguments that start more ranks in a pod than it has devices.
pub(super) fn check(
    path: &str,
    main: &Container,
    uses: &Uses<'_>,
    spec: &LLMInferenceServiceSpec,
) -> Option<Advice> {
    let workload = if path.starts_with("spec.prefill") { spec.prefill.as_deref()? } else { &spec.workload };
    let has = |flags: &[&str]| flags.iter().any(|flag| uses.last(flag).is_some());
    let is_local = has(&[LOCAL]);
    let is_spread = if is_local { has(&SPREAD_RANKS) } else { workload.worker.is_some() || has(&SPREAD) };
    if is_spread {
        return None;
    }
    let ranks = if is_local { LOCAL } else { "--data-parallel-size" };
    let flags = ["--tensor-parallel-size", "--pipeline-parallel-size", ranks];
    let given: Vec<_> = flags.into_iter().filter_map(|flag| uses.last(flag)).collect();
    let last = given.last()?;
    let factors: Vec<i64> = given.iter().filter_map(|used| used.number()).collect();
    let has_tensor = uses.last(flags[0]).is_some();
    let tensor = workload.parallelism.as_ref().and_then(|parallelism| parallelism.tensor);
    let tensor = tensor.filter(|_| !has_tensor).map_or(1, i64::from);
    let needed = factors.iter().fold(tensor, |product, factor| product.saturating_mul(*factor));
    let (resource, count) = devices(main).max_by_key(|(_, count)| *count)?;
    let written: Vec<String> =
        given.iter().map(|used| format!("{} {}", used.name, used.texts().join(" "))).collect();
    (count < needed).then(|| {
        Advice::warning(
            last.word.path.clone(),
            "TooFewDevices",
            format!(
                "has {}, with which vLLM needs {needed} devices: {path}.resources.limits has {count} of {resource}, so it does \
                 not start",
                written.join(" ")
            ),
            format!("set {resource} to {needed}, or lower the flag"),
        )
    })
}
