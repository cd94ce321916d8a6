//! Shared memory that is too small for the KV cache in it.

use longboat_api::v1alpha2::LLMInferenceServiceSpec;
use longboat_compose::small_shared_memory;

use super::Advice;

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
