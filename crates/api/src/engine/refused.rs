//! Fields that several engines cannot have.

use super::row::UnsupportedField;
use crate::v1alpha2::{LLMInferenceServiceSpec, ModelSpec, ParallelismSpec};

pub(super) const LORA: UnsupportedField = UnsupportedField {
    field: "spec.model.lora",
    is_set: |spec| !spec.adapters().is_empty(),
    instead: "the engine cannot choose an adapter by the name in a request: remove spec.runtime to serve adapters with vLLM",
};
pub(super) const TRACING: UnsupportedField = UnsupportedField {
    field: "spec.tracing",
    is_set: |spec| spec.tracing.is_some(),
    instead: "the engine has no flags for traces: remove spec.tracing, or remove spec.runtime to serve with vLLM",
};
pub(super) const PREFILL: UnsupportedField = UnsupportedField {
    field: "spec.prefill",
    is_set: |spec| spec.prefill.is_some(),
    instead: "the engine has no presets for separate prefill and decode: remove spec.prefill, or remove spec.runtime to \
              serve with vLLM",
};
pub(super) const WORKER: UnsupportedField = UnsupportedField {
    field: "spec.worker",
    is_set: |spec| spec.workload.worker.is_some(),
    instead: "the engine has no preset for groups of pods: use spec.parallelism.tensor on one node, or remove \
              spec.runtime to serve with vLLM",
};
/// The same for an engine that refuses [`TENSOR`] too.
pub(super) const GROUP: UnsupportedField = UnsupportedField {
    instead: "the engine has no preset for groups of pods: remove spec.worker and set the devices in resources of the \
              container main, or remove spec.runtime to serve with vLLM",
    ..WORKER
};
pub(super) const KV_CACHE: UnsupportedField = UnsupportedField {
    field: "spec.kvCacheOffloading",
    is_set: |spec| spec.workload.kv_cache_offloading.is_some(),
    instead: "the engine's preset does not offload its KV cache: set the engine's own flags in args of the container \
              main, or remove spec.runtime to serve with vLLM",
};
/// The same for the pods that prefill.
pub(super) const PREFILL_KV_CACHE: UnsupportedField = UnsupportedField {
    field: "spec.prefill.kvCacheOffloading",
    is_set: |spec| spec.prefill.as_ref().is_some_and(|prefill| prefill.kv_cache_offloading.is_some()),
    ..KV_CACHE
};
pub(super) const TENSOR: UnsupportedField = UnsupportedField {
    field: "spec.parallelism.tensor",
    is_set: |spec| parallelism(spec, ParallelismSpec::is_tensor_parallel),
    instead: "the engine uses all devices of its pod by itself: remove spec.parallelism.tensor, and set the devices in \
              resources of the container main",
};
pub(super) const DATA: UnsupportedField = UnsupportedField {
    field: "spec.parallelism.data",
    is_set: |spec| parallelism(spec, |parallelism| parallelism.data.is_some()),
    instead: ONE_RANK,
};
/// The same mistake, where only this half of it is written.
pub(super) const DATA_LOCAL: UnsupportedField = UnsupportedField {
    field: "spec.parallelism.dataLocal",
    is_set: |spec| {
        parallelism(spec, |parallelism| parallelism.data_local.is_some() && parallelism.data.is_none())
    },
    instead: ONE_RANK,
};
const ONE_RANK: &str = "the engine's preset has one rank in each pod: use spec.replicas";
pub(super) const PIPELINE: UnsupportedField = UnsupportedField {
    field: "spec.parallelism.pipeline",
    is_set: |spec| parallelism(spec, ParallelismSpec::is_pipeline_parallel),
    instead: "the engine uses all devices of its pod by itself: set the devices in resources of the container main",
};
pub(super) const EXPERT: UnsupportedField = UnsupportedField {
    field: "spec.parallelism.expert",
    is_set: |spec| parallelism(spec, |parallelism| parallelism.expert),
    instead: "the engine has no expert parallelism: remove the field, or remove spec.runtime to serve with vLLM",
};

/// Whether SGLang takes the name apart, at the first colon.
pub(super) fn splits_at_colon(model: &ModelSpec) -> bool {
    model.name.as_ref().is_some_and(|name| name.contains(':'))
}

/// Whether fewer adapters stay in memory than SGLang loads, or than a batch may use.
pub(super) fn holds_too_few_adapters(spec: &LLMInferenceServiceSpec) -> bool {
    /// SGLang's default of `--max-loras-per-batch`.
    const BATCH: i32 = 8;
    let lora = spec.model.lora.as_ref().filter(|lora| !lora.adapters.is_empty());
    lora.is_some_and(|lora| {
        let batch = lora.max_adapters.unwrap_or(BATCH);
        let loaded = i32::try_from(lora.adapters.len()).unwrap_or(i32::MAX);
        lora.max_cpu_adapters.is_some_and(|limit| limit < batch.max(loaded))
    })
}

fn parallelism(spec: &LLMInferenceServiceSpec, is_set: fn(&ParallelismSpec) -> bool) -> bool {
    spec.workload.parallelism.as_ref().is_some_and(is_set)
}
