//! The engines.

use super::{
    refused::{
        DATA, DATA_LOCAL, EXPERT, GROUP, KV_CACHE, LORA, PIPELINE, PREFILL, PREFILL_KV_CACHE, TENSOR,
        TRACING, WORKER, holds_too_few_adapters, splits_at_colon,
    },
    row::{Engine, HalfPresets, LoraFlags, Presets, TracingFlags, UnsupportedField},
};
use crate::names::preset;

/// The engine of services that name no runtime.
pub static VLLM: Engine = Engine {
    name: "vLLM",
    label: "vllm",
    formats: &["vllm"],
    commands: &["vllm serve", "vllm.entrypoints"],
    images: &["vllm", "llm-d-cuda"],
    presets: Presets {
        whole: HalfPresets {
            single: &[preset::TEMPLATE],
            data: &[preset::WORKER_DATA_PARALLEL],
            pipeline: &["config-llm-worker-pipeline-parallel"],
        },
        decode: HalfPresets {
            single: &[preset::DECODE_TEMPLATE],
            data: &[preset::DECODE_WORKER_DATA_PARALLEL],
            pipeline: &["config-llm-decode-worker-pipeline-parallel"],
        },
        prefill: HalfPresets {
            single: &[preset::PREFILL_TEMPLATE],
            data: &[preset::PREFILL_WORKER_DATA_PARALLEL],
            pipeline: &["config-llm-prefill-worker-pipeline-parallel"],
        },
        adapters: &[],
    },
    served_name: "--served-model-name",
    health: "/health",
    metrics: "/metrics",
    arguments: Some("VLLM_ADDITIONAL_ARGS"),
    tls: true,
    published_name: true,
    lora: Some(LoraFlags {
        enable: "--enable-lora",
        max_rank: "--max-lora-rank",
        max_adapters: "--max-loras",
        max_cpu_adapters: "--max-cpu-loras",
        modules: "--lora-modules",
        module_fields: ["name", "path"],
        is_evaluated: true,
        request_field: None,
        runtime_variable: Some("VLLM_ALLOW_RUNTIME_LORA_UPDATING"),
    }),
    tracing: Some(TracingFlags {
        endpoint: "otlp-traces-endpoint",
        constant: &[("collect-detailed-traces", Some("all"))],
        is_host_and_port: false,
    }),
    refused: &[],
};

/// SGLang.
pub static SGLANG: Engine = Engine {
    name: "SGLang",
    label: "sglang",
    formats: &["sglang"],
    commands: &["sglang.launch_server", "sglang serve"],
    images: &["sglang"],
    presets: Presets {
        whole: HalfPresets {
            single: &[preset::SGLANG_TEMPLATE],
            data: &[preset::SGLANG_TEMPLATE, preset::SGLANG_WORKER],
            pipeline: &[preset::SGLANG_TEMPLATE, preset::SGLANG_WORKER],
        },
        decode: HalfPresets {
            single: &[preset::SGLANG_TEMPLATE, preset::SGLANG_SIDECAR],
            data: &[preset::SGLANG_TEMPLATE, preset::SGLANG_WORKER, preset::SGLANG_SIDECAR],
            pipeline: &[preset::SGLANG_TEMPLATE, preset::SGLANG_WORKER, preset::SGLANG_SIDECAR],
        },
        prefill: HalfPresets {
            single: &[preset::SGLANG_PREFILL],
            data: &[preset::SGLANG_PREFILL, preset::SGLANG_PREFILL_WORKER],
            pipeline: &[preset::SGLANG_PREFILL, preset::SGLANG_PREFILL_WORKER],
        },
        adapters: &[preset::SGLANG_SIDECAR],
    },
    served_name: "--served-model-name",
    health: "/health",
    metrics: "/metrics",
    arguments: None,
    tls: false,
    published_name: false,
    // SGLang does not look an adapter up by the name of the model: a request that only names the adapter would be answered by
    // the base model. So the adapter goes into a field of its own.
    lora: Some(LoraFlags {
        enable: "--enable-lora",
        max_rank: "--max-lora-rank",
        max_adapters: "--max-loras-per-batch",
        max_cpu_adapters: "--max-loaded-loras",
        modules: "--lora-paths",
        module_fields: ["lora_name", "lora_path"],
        is_evaluated: false,
        request_field: Some("lora_path"),
        runtime_variable: None,
    }),
    tracing: Some(TracingFlags {
        endpoint: "otlp-traces-endpoint",
        constant: &[("enable-trace", None)],
        is_host_and_port: true,
    }),
    refused: &[
        UnsupportedField {
            field: "spec.model.name",
            is_set: |spec| splits_at_colon(&spec.model),
            instead: "SGLang takes what follows a colon for the name of an adapter: use a name without a colon",
        },
        UnsupportedField {
            field: "spec.model.lora.adapters",
            is_set: |spec| spec.adapters().iter().any(splits_at_colon),
            instead: "SGLang takes what follows a colon for the name of an adapter: use names without a colon",
        },
        UnsupportedField {
            field: "spec.model.lora.maxCpuAdapters",
            is_set: holds_too_few_adapters,
            instead: "SGLang loads all adapters when it starts, and keeps those of a whole batch (maxAdapters, 8 if unset): \
                      set at least the larger of both numbers, or remove the field",
        },
        KV_CACHE,
        PREFILL_KV_CACHE,
    ],
};

/// The server of TensorRT-LLM.
pub static TENSORRT_LLM: Engine = Engine {
    name: "TensorRT-LLM",
    // The name under which pickers know its metrics.
    label: "trtllm-serve",
    formats: &["tensorrt-llm", "tensorrt_llm", "tensorrtllm", "trtllm"],
    commands: &["trtllm-serve"],
    images: &["tensorrt-llm", "trtllm"],
    presets: Presets::one(&[preset::TENSORRT_LLM_TEMPLATE]),
    served_name: "--served_model_name",
    health: "/health",
    // `/metrics` is JSON.
    metrics: "/prometheus/metrics",
    arguments: None,
    tls: false,
    published_name: false,
    lora: None,
    tracing: Some(TracingFlags { endpoint: "otlp_traces_endpoint", constant: &[], is_host_and_port: false }),
    refused: &[LORA, PREFILL, WORKER, KV_CACHE, DATA, DATA_LOCAL],
};

/// The server of llama.cpp.
pub static LLAMA_CPP: Engine = Engine {
    name: "llama.cpp",
    label: "llamacpp",
    formats: &["llama.cpp", "llamacpp", "gguf"],
    commands: &["llama-server"],
    images: &["llama.cpp", "llama-cpp"],
    presets: Presets::one(&[preset::LLAMA_CPP_TEMPLATE]),
    served_name: "--alias",
    health: "/health",
    metrics: "/metrics",
    arguments: None,
    tls: false,
    published_name: false,
    lora: None,
    tracing: None,
    refused: &[LORA, TRACING, PREFILL, GROUP, KV_CACHE, TENSOR, DATA, DATA_LOCAL, PIPELINE, EXPERT],
};

/// All engines.
pub static ENGINES: [&Engine; 4] = [&VLLM, &SGLANG, &TENSORRT_LLM, &LLAMA_CPP];

/// Names of runtimes that Longboat ships, and their engines. Admission knows the engine of a service that names one of them.
/// The engine of any other runtime is known only when the runtime is read.
pub(super) static SHIPPED: [(&str, &Engine); 3] = [
    ("kserve-llm-sglang", &SGLANG),
    ("longboat-tensorrt-llm", &TENSORRT_LLM),
    ("longboat-llama-cpp", &LLAMA_CPP),
];
