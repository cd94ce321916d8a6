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

/// Finds tiers for offloaded KV cache that hold nothing, such as `cpu: 10` for 10 GiB.
pub(super) fn tiers_without_unit(spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    let halves = [("spec", Some(&spec.workload)), ("spec.prefill", spec.prefill.as_deref())];
    let mut all = Vec::new();
    for (path, offloading) in
        halves.into_iter().filter_map(|(path, half)| Some((path, half?.kv_cache_offloading.as_ref()?)))
    {
        let path = format!("{path}.kvCacheOffloading");
        let files = offloading.secondary.iter().enumerate().filter_map(|(at, tier)| {
            let size = &tier.file_system.as_ref()?.empty_dir.as_ref()?.size;
            Some((format!("{path}.secondary[{at}].fileSystem.emptyDir.size"), size))
        });
        for (path, size) in std::iter::once((format!("{path}.cpu"), &offloading.cpu)).chain(files) {
            let Some(bytes) = Quantity::parse(&size.0.0).map(Quantity::whole) else { continue };
            if (1..MIN_BYTES).contains(&bytes) {
                all.push(Advice::warning(
                    path,
                    "MemoryWithoutUnit",
                    format!("is {bytes} bytes, in which no block of KV cache has room"),
                    format!("write a unit, such as {bytes}Gi"),
                ));
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

#[cfg(test)]
mod tests {
    use crate::advice::tests::{said, service};

    #[test]
    fn a_tier_of_a_few_bytes_lacks_its_unit() {
        let with = |cpu: &str, size: &str| {
            said(&service(
                "a",
                &format!(
                    "  model: {{uri: 'hf://a/b'}}\n  kvCacheOffloading:\n    cpu: {cpu}\n    secondary: [{{fileSystem: {{emptyDir: {{size: {size}}}}}}}]\n"
                ),
            ))
        };
        assert_eq!(with("10Gi", "100Gi"), [""; 0]);
        let said = "bytes, in which no block of KV cache has room (write a unit, such as";
        assert_eq!(
            with("10", "100"),
            [
                format!("7:5 warning spec.kvCacheOffloading.cpu: is 10 {said} 10Gi)"),
                format!(
                    "8:42 warning spec.kvCacheOffloading.secondary[0].fileSystem.emptyDir.size: is 100 {said} 100Gi)"
                ),
            ]
        );
    }
}
