//! Memory that is too small: shared memory for the KV cache in it, and limits without a unit.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Amount;
use longboat_api::v1alpha2::LLMInferenceServiceSpec;
use longboat_compose::small_shared_memory;
use longboat_quantity::Quantity;

use crate::{
    finding::Advice,
    pods::{half_of, main_containers},
};

/// No process starts with less memory, in bytes.
const MIN_BYTES: i128 = 1 << 20;

/// No file needs less on a volume: one page, or one block.
const MIN_VOLUME_BYTES: i128 = 1 << 12;

/// Finds memory, disk and tiers of KV cache in which nothing can run or has room, such as `memory: 16` for 16 GiB.
pub(super) fn without_unit(spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    let mut all = Vec::new();
    let mut judge = |path: String, amount: Option<&Amount>, min: i128, what: &str| {
        let Some(bytes) = amount.and_then(|amount| Quantity::parse(&amount.0)).map(Quantity::whole) else {
            return;
        };
        if (1..min).contains(&bytes) {
            let message = format!("is {bytes} bytes, in which {what}");
            let hint = format!("write a unit, such as {bytes}Gi");
            all.push(Advice::warning(path, "MemoryWithoutUnit", message, hint));
        }
    };
    for (path, pod) in spec.server_pods() {
        for container in &pod.containers {
            let Some(resources) = &container.resources else { continue };
            for (kind, amounts) in [("limits", &resources.limits), ("requests", &resources.requests)] {
                for (resource, what) in
                    [("memory", "nothing can run"), ("ephemeral-storage", "nothing has room")]
                {
                    let path =
                        format!("{path}.containers[name={}].resources.{kind}.{resource}", container.name);
                    let amount = amounts.as_ref().and_then(|amounts| amounts.get(resource));
                    judge(path, amount, MIN_BYTES, what);
                }
            }
        }
        for volume in pod.volumes.iter().flatten() {
            let size = volume.empty_dir.as_ref().and_then(|volume| volume.size_limit.as_ref());
            let path = format!("{path}.volumes[name={}].emptyDir.sizeLimit", volume.name);
            judge(path, size, MIN_VOLUME_BYTES, "nothing has room");
        }
    }
    for (path, half) in spec.workloads() {
        let Some(offloading) = &half.kv_cache_offloading else { continue };
        let path = format!("{path}.kvCacheOffloading");
        let mut judge = |path, size| judge(path, Some(size), MIN_BYTES, "no block of KV cache has room");
        judge(format!("{path}.cpu"), &offloading.cpu.0);
        for (at, tier) in offloading.secondary.iter().enumerate() {
            if let Some(disk) = tier.file_system.as_ref().and_then(|files| files.empty_dir.as_ref()) {
                judge(format!("{path}.secondary[{at}].fileSystem.emptyDir.size"), &disk.size.0);
            }
        }
    }
    all
}

/// Finds containers whose limit of memory is too small for the KV cache that they offload. Nothing adds it to the limit.
pub(super) fn over_limit(spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    let bytes = |text: &str| Quantity::parse(text).map(Quantity::whole);
    let mut all = Vec::new();
    for (path, main) in main_containers(spec) {
        let half = half_of(spec, &path);
        let Some(cache) = half.and_then(|(_, half)| half.kv_cache_offloading.as_ref()) else { continue };
        let cache = &cache.cpu.0.0;
        let limits = main.resources.as_ref().and_then(|resources| resources.limits.as_ref());
        let Some(limit) = limits.and_then(|limits| limits.get("memory")).map(|limit| &limit.0) else {
            continue;
        };
        // The cache is in `/dev/shm`, whose pages count for the container that writes them.
        if bytes(cache).zip(bytes(limit)).is_some_and(|(cache, limit)| cache >= limit) {
            all.push(Advice::warning(
                format!("{path}.resources.limits.memory"),
                "MemoryLimit",
                format!("is {limit}, and the KV cache in memory (kvCacheOffloading.cpu) takes {cache} of it: the container is killed"),
                "raise the limit above the sum of the cache and of what the model server needs",
            ));
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
    use crate::advice::tests::{finding_lines, noted, service};

    #[test]
    fn a_cache_that_fills_the_memory_of_its_container_is_warned_about() {
        let with = |cpu: &str| {
            finding_lines(&service(
                "a",
                &format!(
                    "  model: {{uri: 'hf://a/b'}}\n  kvCacheOffloading: {{cpu: {cpu}}}\n  template:\n    containers:\n    - name: main\n      \
                     resources: {{limits: {{memory: 16Gi}}}}\n"
                ),
            ))
        };
        assert_eq!(
            with("200Gi"),
            [
                "10:28 warning spec.template.containers[0].resources.limits.memory: is 16Gi, and the KV cache in memory \
                 (kvCacheOffloading.cpu) takes 200Gi of it: the container is killed (raise the limit above the sum of the cache and \
                 of what the model server needs)"
            ]
        );
        assert_eq!(with("8Gi"), [""; 0]);
    }

    #[test]
    fn a_disk_of_a_few_bytes_lacks_its_unit() {
        let with = |disk: &str, volume: &str| {
            finding_lines(&service(
                "a",
                &format!(
                    "  model: {{uri: 'hf://a/b'}}\n  template:\n    containers:\n    - name: main\n      resources: {{limits: {{ephemeral-storage: \
                     {disk}}}}}\n    volumes: [{{name: v, emptyDir: {{sizeLimit: {volume}}}}}]\n"
                ),
            ))
        };
        let message = |bytes: u16| {
            format!("is {bytes} bytes, in which nothing has room (write a unit, such as {bytes}Gi)")
        };
        assert_eq!(
            with("'100'", "'16'"),
            [
                format!(
                    "9:28 warning spec.template.containers[0].resources.limits.ephemeral-storage: {}",
                    message(100)
                ),
                format!("10:36 warning spec.template.volumes[0].emptyDir.sizeLimit: {}", message(16)),
            ]
        );
        assert_eq!(with("100Mi", "64Ki"), [""; 0]);
    }

    #[test]
    fn a_tier_of_a_few_bytes_lacks_its_unit() {
        let with = |cpu: &str, size: &str| {
            finding_lines(&service(
                "a",
                &format!(
                    "  model: {{uri: 'hf://a/b'}}\n  kvCacheOffloading:\n    cpu: {cpu}\n    secondary: [{{fileSystem: {{emptyDir: {{size: {size}}}}}}}]\n"
                ),
            ))
        };
        assert_eq!(with("10Gi", "100Gi"), [""; 0]);
        let effect = "bytes, in which no block of KV cache has room (write a unit, such as";
        assert_eq!(
            with("10", "100"),
            [
                format!("7:5 warning spec.kvCacheOffloading.cpu: is 10 {effect} 10Gi)"),
                format!(
                    "8:42 warning spec.kvCacheOffloading.secondary[0].fileSystem.emptyDir.size: is 100 {effect} 100Gi)"
                ),
            ]
        );
    }

    #[test]
    fn a_fixed_shared_memory_below_the_cache_is_warned_about_where_it_is_written() {
        let with = |volumes: &str| {
            service(
                "one",
                &format!("  model: {{uri: 'hf://a/b'}}\n  kvCacheOffloading: {{cpu: 10Gi}}\n{volumes}"),
            )
        };
        assert_eq!(finding_lines(&with("")), Vec::<String>::new());
        let fixed =
            "  template:\n    volumes:\n    - name: dshm\n      emptyDir: {medium: Memory, sizeLimit: 1Gi}\n";
        assert_eq!(
            finding_lines(&with(fixed)),
            [
                "10:34 warning spec.template.volumes[0].emptyDir.sizeLimit: is 1Gi, less than the 10Gi of KV cache \
             (kvCacheOffloading.cpu) that /dev/shm has to hold (set more than 10Gi, or remove the size, which the presets then \
             choose)"
            ]
        );
        assert_eq!(noted(&with(fixed), "SmallSharedMemory").len(), 1);
    }
}
