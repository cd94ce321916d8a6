//! Memory that is too small: shared memory for the KV cache in it, and limits without a unit.

use longboat_api::v1alpha2::LLMInferenceServiceSpec;
use longboat_compose::small_shared_memory;
use longboat_quantity::Quantity;

use super::{Advice, pods};

/// No process starts with less memory, in bytes.
const MIN_BYTES: i128 = 1 << 20;

/// Finds memory of containers in which nothing can run, such as `memory: 16` for 16 GiB.
pub(super) fn without_unit(spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    let mut all = Vec::new();
    for (path, pod) in pods(spec) {
        for container in &pod.containers {
            let Some(resources) = &container.resources else { continue };
            for (kind, amounts) in [("limits", &resources.limits), ("requests", &resources.requests)] {
                let amount = amounts.as_ref().and_then(|amounts| amounts.get("memory"));
                let Some(bytes) = amount.and_then(|amount| Quantity::parse(&amount.0)).map(Quantity::whole)
                else {
                    continue;
                };
                if (1..MIN_BYTES).contains(&bytes) {
                    all.push(Advice::warning(
                        format!("{path}.containers[name={}].resources.{kind}.memory", container.name),
                        "MemoryWithoutUnit",
                        format!("is {bytes} bytes, in which nothing can run"),
                        format!("write a unit, such as {bytes}Gi"),
                    ));
                }
            }
        }
    }
    all
}

/// Finds each `/dev/shm` that cannot hold the offloaded cache.
pub(super) fn check(spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    let found = small_shared_memory(spec).into_iter();
    let advice = found.map(|memory| {
        Advice::warning(
            memory.path,
            "SmallSharedMemory",
            format!(
                "is {}, less than the {} of KV cache (kvCacheOffloading.cpu) that /dev/shm has to hold",
                memory.size, memory.cache
            ),
            format!("set more than {}, or remove the size, which the presets then choose", memory.cache),
        )
    });
    advice.collect()
}
