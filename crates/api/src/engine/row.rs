//! What the controller knows about a model server.

use crate::v1alpha2::LLMInferenceServiceSpec;

/// An engine.
#[derive(Debug)]
pub struct Engine {
    /// Its name, for people.
    pub name: &'static str,
    /// The value of the pod label [`ENGINE_TYPE`](crate::labels::ENGINE_TYPE), from which the picker takes the names of metrics.
    pub label: &'static str,
    /// Names of the formats of models in runtimes that start it, in lower case.
    pub(super) formats: &'static [&'static str],
    /// Texts in the command line that starts it.
    pub(super) commands: &'static [&'static str],
    /// Texts in the names of its images.
    pub(super) images: &'static [&'static str],
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
    pub refused: &'static [UnsupportedField],
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
    pub(super) const NONE: Self = Self { single: &[], data: &[], pipeline: &[] };
}

impl Presets {
    /// The presets of an engine that one preset starts, on one node.
    pub(super) const fn one(template: &'static [&'static str]) -> Self {
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
pub struct UnsupportedField {
    /// Path of the field.
    pub field: &'static str,
    pub(super) is_set: fn(&LLMInferenceServiceSpec) -> bool,
    /// Why, and what to use instead.
    pub instead: &'static str,
}

// === impl UnsupportedField ===

impl UnsupportedField {
    /// The sentence for a service whose runtime starts the engine.
    pub fn why(&self, engine: &Engine, runtime: &str) -> String {
        format!("not possible with {}, the engine of runtime {runtime}: {}", engine.name, self.instead)
    }
}
