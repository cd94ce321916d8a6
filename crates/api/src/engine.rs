//! The engines: what the controller knows about each model server. An engine is one row here and one preset.

use k8s_openapi::api::core::v1::Container;

use crate::labels::ENGINE_TYPE;
use crate::names::preset;
use crate::v1alpha2::{LLMInferenceServiceSpec, ModelSpec, ParallelismSpec};

/// An engine.
#[derive(Debug)]
pub struct Engine {
    /// Its name, for people.
    pub name: &'static str,
    /// The value of the pod label [`ENGINE_TYPE`], from which the picker takes the names of metrics.
    pub label: &'static str,
    /// Names of the formats of models in runtimes that start it, in lower case.
    formats: &'static [&'static str],
    /// Texts in the command line that starts it.
    commands: &'static [&'static str],
    /// Texts in the names of its images.
    images: &'static [&'static str],
    /// The presets that start it.
    pub presets: Presets,
    /// The flag with the name under which it serves the model.
    pub served_name: &'static str,
    /// The path of its probes.
    pub health: &'static str,
    /// The path of its metrics.
    pub metrics: &'static str,
    /// The variable with additional arguments that its presets read.
    pub arguments: Option<&'static str>,
    /// Whether its presets serve TLS if the platform enables TLS.
    pub tls: bool,
    /// Whether its preset also serves the model as `publishers/NAMESPACE/models/NAME`, the name in the model header of routes.
    pub published_name: bool,
    /// The flags that load LoRA adapters under names that clients can ask for.
    pub lora: Option<LoraFlags>,
    /// The flags that turn on tracing.
    pub tracing: Option<TracingFlags>,
    /// The fields of the spec that it cannot have, because its presets and flags do not implement them.
    pub refused: &'static [Refused],
}

/// The presets of an engine, lowest layer first.
#[derive(Debug)]
pub struct Presets {
    /// Of pods that do everything.
    pub whole: HalfPresets,
    /// Of pods that decode.
    pub decode: HalfPresets,
    /// Of pods that only prefill.
    pub prefill: HalfPresets,
    /// Added if the service has LoRA adapters, unless it decodes.
    pub adapters: &'static [&'static str],
}

/// The presets of one half of a workload. Empty lists are for what the engine refuses.
#[derive(Debug)]
pub struct HalfPresets {
    /// On one node.
    pub single: &'static [&'static str],
    /// On several nodes, data parallel.
    pub data: &'static [&'static str],
    /// On several nodes, pipeline parallel.
    pub pipeline: &'static [&'static str],
}

impl HalfPresets {
    const NONE: Self = Self { single: &[], data: &[], pipeline: &[] };
}

impl Presets {
    /// The presets of an engine that one preset starts, on one node.
    const fn one(template: &'static [&'static str]) -> Self {
        Self {
            whole: HalfPresets { single: template, ..HalfPresets::NONE },
            decode: HalfPresets::NONE,
            prefill: HalfPresets::NONE,
            adapters: &[],
        }
    }
}

/// Flags for LoRA adapters.
#[derive(Debug)]
pub struct LoraFlags {
    /// Turns adapters on.
    pub enable: &'static str,
    /// The highest rank.
    pub max_rank: &'static str,
    /// How many adapters a batch may use.
    pub max_adapters: &'static str,
    /// How many adapters stay in memory.
    pub max_cpu_adapters: &'static str,
    /// The adapters, as JSON objects of name and path.
    pub modules: &'static str,
    /// The fields of these objects.
    pub module_fields: [&'static str; 2],
    /// Whether a shell evaluates the arguments once more.
    pub is_evaluated: bool,
    /// The field of a request that names the adapter. The routing sidecar sets it. `None` if the engine takes the adapter from
    /// the name of the model.
    pub request_field: Option<&'static str>,
    /// The variable that opens the engine's API for adapters at run time, which is vLLM's. `None` if the engine has none, or needs
    /// the routing sidecar to know the adapters.
    pub runtime_variable: Option<&'static str>,
}

/// Flags for tracing.
#[derive(Debug)]
pub struct TracingFlags {
    /// Flags with their values.
    pub constant: &'static [(&'static str, Option<&'static str>)],
    /// The flag with the address of the collector.
    pub endpoint: &'static str,
    /// Whether the address is only host and port, and not a URL.
    pub is_host_and_port: bool,
}

/// A field that an engine cannot have.
#[derive(Debug)]
pub struct Refused {
    /// Path of the field.
    pub field: &'static str,
    is_set: fn(&LLMInferenceServiceSpec) -> bool,
    /// Why, and what to use instead.
    pub instead: &'static str,
}

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
        Refused {
            field: "spec.model.name",
            is_set: |spec| is_taken_apart(&spec.model),
            instead: "SGLang takes what follows a colon for the name of an adapter: use a name without a colon",
        },
        Refused {
            field: "spec.model.lora.adapters",
            is_set: |spec| adapters(spec).iter().any(is_taken_apart),
            instead: "SGLang takes what follows a colon for the name of an adapter: use names without a colon",
        },
        Refused {
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
static SHIPPED: [(&str, &Engine); 3] = [
    ("kserve-llm-sglang", &SGLANG),
    ("longboat-tensorrt-llm", &TENSORRT_LLM),
    ("longboat-llama-cpp", &LLAMA_CPP),
];

const LORA: Refused = Refused {
    field: "spec.model.lora",
    is_set: has_adapters,
    instead: "the engine cannot choose an adapter by the name in a request: remove spec.runtime to serve adapters with vLLM",
};
const TRACING: Refused = Refused {
    field: "spec.tracing",
    is_set: |spec| spec.tracing.is_some(),
    instead: "the engine has no flags for traces: remove spec.tracing, or remove spec.runtime to serve with vLLM",
};
const PREFILL: Refused = Refused {
    field: "spec.prefill",
    is_set: |spec| spec.prefill.is_some(),
    instead: "the engine has no presets for separate prefill and decode: remove spec.prefill, or remove spec.runtime to \
              serve with vLLM",
};
const WORKER: Refused = Refused {
    field: "spec.worker",
    is_set: |spec| spec.workload.worker.is_some(),
    instead: "the engine has no preset for groups of pods: use spec.parallelism.tensor on one node, or remove \
              spec.runtime to serve with vLLM",
};
/// The same for an engine that refuses [`TENSOR`] too.
const GROUP: Refused = Refused {
    instead: "the engine has no preset for groups of pods: remove spec.worker and set the devices in resources of the \
              container main, or remove spec.runtime to serve with vLLM",
    ..WORKER
};
const KV_CACHE: Refused = Refused {
    field: "spec.kvCacheOffloading",
    is_set: |spec| spec.workload.kv_cache_offloading.is_some(),
    instead: "the engine's preset does not offload its KV cache: set the engine's own flags in args of the container \
              main, or remove spec.runtime to serve with vLLM",
};
/// The same for the pods that prefill.
const PREFILL_KV_CACHE: Refused = Refused {
    field: "spec.prefill.kvCacheOffloading",
    is_set: |spec| spec.prefill.as_ref().is_some_and(|prefill| prefill.kv_cache_offloading.is_some()),
    ..KV_CACHE
};
const TENSOR: Refused = Refused {
    field: "spec.parallelism.tensor",
    is_set: |spec| parallelism(spec, ParallelismSpec::is_tensor_parallel),
    instead: "the engine uses all devices of its pod by itself: remove spec.parallelism.tensor, and set the devices in \
              resources of the container main",
};
const DATA: Refused = Refused {
    field: "spec.parallelism.data",
    is_set: |spec| parallelism(spec, |parallelism| parallelism.data.is_some()),
    instead: ONE_RANK,
};
/// The same mistake, where only this half of it is written.
const DATA_LOCAL: Refused = Refused {
    field: "spec.parallelism.dataLocal",
    is_set: |spec| {
        parallelism(spec, |parallelism| parallelism.data_local.is_some() && parallelism.data.is_none())
    },
    instead: ONE_RANK,
};
const ONE_RANK: &str = "the engine's preset has one rank in each pod: use spec.replicas";
const PIPELINE: Refused = Refused {
    field: "spec.parallelism.pipeline",
    is_set: |spec| parallelism(spec, ParallelismSpec::is_pipeline_parallel),
    instead: "the engine uses all devices of its pod by itself: set the devices in resources of the container main",
};
const EXPERT: Refused = Refused {
    field: "spec.parallelism.expert",
    is_set: |spec| parallelism(spec, |parallelism| parallelism.expert),
    instead: "the engine has no expert parallelism: remove the field, or remove spec.runtime to serve with vLLM",
};

fn adapters(spec: &LLMInferenceServiceSpec) -> &[ModelSpec] {
    spec.model.lora.as_ref().map_or(&[], |lora| &lora.adapters)
}

fn has_adapters(spec: &LLMInferenceServiceSpec) -> bool {
    !adapters(spec).is_empty()
}

/// Whether SGLang takes the name apart, at the first colon.
fn is_taken_apart(model: &ModelSpec) -> bool {
    model.name.as_ref().is_some_and(|name| name.contains(':'))
}

/// Whether fewer adapters stay in memory than SGLang loads, or than a batch may use.
fn holds_too_few_adapters(spec: &LLMInferenceServiceSpec) -> bool {
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

// === impl Refused ===

impl Refused {
    /// The sentence for a service whose runtime starts the engine.
    pub fn why(&self, engine: &Engine, runtime: &str) -> String {
        format!("not possible with {}, the engine of runtime {runtime}: {}", engine.name, self.instead)
    }
}

// === impl Engine ===

impl Engine {
    /// The engine of a runtime that Longboat ships.
    pub fn of_shipped_runtime(name: &str) -> Option<&'static Self> {
        SHIPPED.iter().find(|(shipped, _)| *shipped == name).map(|(_, engine)| *engine)
    }

    /// The engine that a runtime's format of models names.
    pub fn of_format(format: &str) -> Option<&'static Self> {
        let format = format.to_ascii_lowercase();
        ENGINES.into_iter().find(|engine| engine.formats.contains(&format.as_str()))
    }

    /// The engine that a container's command line starts.
    pub fn of_command(container: &Container) -> Option<&'static Self> {
        let parts = container.command.iter().flatten().chain(container.args.iter().flatten());
        Self::of_words(&parts.map(String::as_str).collect::<Vec<_>>().join(" "))
    }

    /// The engine that a script or a command line starts.
    pub fn of_words(words: &str) -> Option<&'static Self> {
        ENGINES.into_iter().find(|engine| engine.commands.iter().any(|command| words.contains(command)))
    }

    /// The engine of a composed spec. The presets of other engines than vLLM label their pods.
    pub fn of_spec(spec: &LLMInferenceServiceSpec) -> &'static Self {
        let labelled = || {
            let label = spec.workload.labels.get(ENGINE_TYPE).filter(|_| spec.runtime().is_some())?;
            ENGINES.into_iter().find(|engine| engine.label == label)
        };
        let started = || {
            let containers = &spec.workload.template.as_ref()?.containers;
            Self::of_command(containers.iter().find(|container| container.name == "main")?)
        };
        labelled().or_else(started).unwrap_or(&VLLM)
    }

    /// Whether the engine of a composed spec serves the model under its published name too. Without a runtime, this is the
    /// affair of whoever writes the command.
    pub fn serves_published_name(spec: &LLMInferenceServiceSpec) -> bool {
        spec.runtime().is_none() || Self::of_spec(spec).published_name
    }

    /// The engine whose name an image has.
    pub fn of_image(image: &str) -> Option<&'static Self> {
        ENGINES.into_iter().find(|engine| engine.images.iter().any(|part| image.contains(part)))
    }

    /// The fields of a spec that the engine cannot have.
    pub fn refused<'a>(
        &self,
        spec: &'a LLMInferenceServiceSpec,
    ) -> impl Iterator<Item = &'static Refused> + 'a {
        self.refused.iter().filter(|refused| (refused.is_set)(spec))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(command: &[&str]) -> Container {
        Container {
            command: Some(command.iter().map(|word| (*word).to_owned()).collect()),
            ..Container::default()
        }
    }

    #[test]
    fn an_engine_is_known_by_format_command_and_image() {
        let name = |engine: Option<&Engine>| engine.map(|engine| engine.name);
        assert_eq!(name(Engine::of_format("SGLang")), Some("SGLang"));
        assert_eq!(name(Engine::of_format("huggingface")), None);
        for (command, engine) in [
            (&["/bin/bash", "-c", "exec vllm serve /mnt/models"][..], Some("vLLM")),
            (&["python3", "-m", "sglang.launch_server"], Some("SGLang")),
            (&["trtllm-serve", "/mnt/models"], Some("TensorRT-LLM")),
            (&["/app/llama-server", "-m", "model.gguf"], Some("llama.cpp")),
            (&["tritonserver"], None),
        ] {
            assert_eq!(name(Engine::of_command(&container(command))), engine, "{command:?}");
        }
        for (image, engine) in [
            ("lmsysorg/sglang:v0.5.14", Some("SGLang")),
            ("vllm/vllm-openai:v0.22.0", Some("vLLM")),
            ("nvcr.io/nvidia/tensorrt-llm/release:1.1.0", Some("TensorRT-LLM")),
            ("ghcr.io/ggml-org/llama.cpp:server-cuda", Some("llama.cpp")),
            ("kserve/huggingfaceserver:v0.21.0", None),
        ] {
            assert_eq!(name(Engine::of_image(image)), engine, "{image}");
        }
    }

    #[test]
    fn what_an_engine_has_no_flags_for_is_refused_by_name() {
        for engine in ENGINES {
            let refuses = |field: &str| engine.refused.iter().any(|refused| refused.field == field);
            assert_eq!(engine.lora.is_none(), refuses("spec.model.lora"), "{}", engine.name);
            assert_eq!(engine.tracing.is_none(), refuses("spec.tracing"), "{}", engine.name);
        }
    }
}
