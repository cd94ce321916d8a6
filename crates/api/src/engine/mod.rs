//! The engines: what the controller knows about each model server. An engine is one row of [`table`] and one preset.

mod key;
mod refused;
mod row;
mod table;

use k8s_openapi::api::core::v1::Container;

pub use key::EngineKey;
pub use row::{Engine, HalfPresets, LoraFlags, Presets, TracingFlags, UnsupportedField};
pub use table::{ENGINES, LLAMA_CPP, SGLANG, TENSORRT_LLM, VLLM};

use crate::labels::ENGINE_TYPE;
use crate::v1alpha2::LLMInferenceServiceSpec;
use table::SHIPPED;

// === impl Engine ===

impl Engine {
    /// The engine of a runtime that Longboat ships.
    pub(crate) fn of_shipped_runtime(name: &str) -> Option<&'static Self> {
        SHIPPED.iter().find(|(shipped, _)| *shipped == name).map(|(_, engine)| *engine)
    }

    /// The engine that a runtime's format of models names.
    pub(crate) fn of_format(format: &str) -> Option<&'static Self> {
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
            // Without a runtime, the label is a user's own, and says nothing about what the presets start.
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
    ) -> impl Iterator<Item = &'static UnsupportedField> + 'a {
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
