//! Ranks of vLLM that have no device.

use k8s_openapi::api::core::v1::Container;
use longboat_api::{fields::devices, v1alpha2::LLMInferenceServiceSpec};

use super::uses::Uses;
use crate::{finding::Advice, pods::half_of};

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
    let (_, workload) = half_of(spec, path)?;
    let has = |flags: &[&str]| flags.iter().any(|flag| uses.last(flag).is_some());
    let is_local = has(&[LOCAL]);
    let is_spread = if is_local { has(&SPREAD_RANKS) } else { workload.worker.is_some() || has(&SPREAD) };
    // Nobody says here how many ranks the other pods take.
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

#[cfg(test)]
mod tests {
    use super::super::tests::{PRESET, about, finding_lines};

    #[test]
    fn flags_that_need_more_devices_than_the_pod_has_are_warned_about() {
        let limits = "resources: {limits: {nvidia.com/gpu: '1'}}";
        let found = finding_lines(&format!("args: [-tp, '8']\n      {limits}"));
        assert_eq!(
            found,
            [format!(
                "warning {PRESET}.args[0]: has -tp 8, with which vLLM needs 8 devices: \
             spec.template.containers[name=main].resources.limits has 1 of nvidia.com/gpu, so it does not start (set \
             nvidia.com/gpu to 8, or lower the flag)"
            )]
        );
        for fields in ["args: [-tp, '8']".to_owned(), format!("args: [-tp, '1']\n      {limits}")] {
            assert_eq!(finding_lines(&fields), [""; 0], "{fields}");
        }
    }

    #[test]
    fn local_ranks_need_devices_in_each_pod() {
        let with = |spread: &str, args: &str| {
            about(&format!(
                "  model: {{uri: 'hf://a/b', name: m}}\n  {spread}\n  template:\n    containers:\n    - name: main\n      args: [{args}]\n      \
             resources: {{limits: {{nvidia.com/gpu: 2}}}}\n"
            ))
        };
        let expected = |args: &str, needed: u32| {
            format!(
                "warning {PRESET}.args[0]: has {args}, with which vLLM needs {needed} devices: spec.template.containers[name=main]\
             .resources.limits has 2 of nvidia.com/gpu, so it does not start (set nvidia.com/gpu to {needed}, or lower the flag)"
            )
        };
        let group = "parallelism: {data: 8, dataLocal: 2}\n  \
                     worker: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 2}}}]}";
        for spread in ["replicas: 1", group] {
            assert_eq!(
                with(spread, "--data-parallel-size-local=4"),
                [expected("--data-parallel-size-local 4", 4)],
                "{spread}"
            );
            assert_eq!(with(spread, "--data-parallel-size-local=2"), [""; 0], "{spread}");
        }
        // The other ranks are in other pods.
        assert_eq!(with("replicas: 1", "--data-parallel-size=8, --data-parallel-size-local=2"), [""; 0]);
    }

    #[test]
    fn ranks_of_sglang_on_one_node_need_devices_too() {
        for (parallelism, needed) in [
            ("{pipeline: 2}", "(pipeline 2) needs 2"),
            ("{data: 2, dataLocal: 2, tensor: 2}", "(tensor 2, data 2) needs 4"),
        ] {
            let found = about(&format!(
                "  model: {{uri: 'hf://a/b', name: m}}\n  runtime: kserve-llm-sglang\n  parallelism: {parallelism}\n  \
             template: {{containers: [{{name: main, resources: {{limits: {{nvidia.com/gpu: '1'}}}}}}]}}\n"
            ));
            assert!(
                found.iter().any(|line| line.contains(&format!("and parallelism {needed}"))),
                "{found:#?}"
            );
        }
    }
}
