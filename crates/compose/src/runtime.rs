//! The runtime of a service, which says which engine serves its model.

use std::sync::Arc;

use longboat_api::{
    engine::{Engine, VLLM},
    v1alpha2::LLMInferenceServiceSpec,
};
use longboat_key::{Name, Namespace};
use serde_json::Value;

use crate::{
    error::{ComposeError, RefusedField},
    inputs::Inputs,
    layer::Layer,
    origin::Origin,
    platform::Images,
};

/// The runtime of a service with its engine.
pub(crate) struct ServiceRuntime {
    pub(crate) layer: Arc<Layer>,
    pub(crate) engine: &'static Engine,
}

impl ServiceRuntime {
    /// Finds the runtime that a service names, or else its base configs.
    ///
    /// # Errors
    /// If there is no such runtime, or no service can use it.
    pub(crate) fn find(
        inputs: &Inputs<'_>,
        namespace: Namespace<&str>,
        own: &Value,
        decision: &Value,
    ) -> Result<Option<Self>, ComposeError> {
        let named = own.get("runtime").or_else(|| decision.get("runtime")).and_then(Value::as_str);
        let Some(name) = named.filter(|name| !name.is_empty()) else { return Ok(None) };
        let layer = inputs
            .configs
            .runtime(namespace, Name(name))
            .or_else(|| inputs.configs.runtime(Namespace(""), Name(name)))
            .ok_or_else(|| ComposeError::RuntimeNotFound {
                name: name.to_owned(),
                namespace: namespace.to_string(),
            })?;
        let unsupported = |problem: String| {
            Err(ComposeError::RuntimeUnsupported { runtime: layer.origin().to_string(), problem })
        };
        let Some(facts) = &layer.runtime else { return Ok(None) };
        if facts.disabled {
            return unsupported(
                "it is disabled: set its spec.disabled to false, or name another runtime".to_owned(),
            );
        }
        let containers = layer.spec().pointer("/template/containers").and_then(Value::as_array);
        let container_names =
            || containers.into_iter().flatten().filter_map(|container| container.get("name")?.as_str());
        let Some(main) = container_names().position(|name| name == "main") else {
            // Runtimes for InferenceService have `kserve-container`, which would run beside an engine without an image.
            return unsupported(format!(
                "none of its containers ({}) is named main, as the engine's of an LLMInferenceService is: give the engine's \
                 container that name, or name another runtime",
                container_names().collect::<Vec<_>>().join(", ")
            ));
        };
        let has_image = containers.is_some_and(|containers| containers[main].get("image").is_some());
        match facts.engine {
            // A runtime is the lowest layer, so its image would never run.
            Some(engine) if engine.label == VLLM.label && has_image => unsupported(format!(
                "the preset of {} has an image of its own, which would take the place of the runtime's: remove spec.runtime, \
                 and set the image of the container main in spec.template",
                engine.name
            )),
            Some(engine) => Ok(Some(Self { layer: layer.for_pods_of(decision), engine })),
            None => unsupported(
                "its engine is unknown: expected a format in its spec.supportedModelFormats that names an engine, such \
                 as sglang or vllm"
                    .to_owned(),
            ),
        }
    }

    /// Refuses fields of the merged spec that the engine cannot have, and names the layers that set them. `images` are those of
    /// the presets.
    pub(crate) fn check(
        &self,
        spec: &LLMInferenceServiceSpec,
        own: &Value,
        layers: &[Arc<Layer>],
        images: &Images,
    ) -> Result<(), ComposeError> {
        let origin = |path: &str| {
            let pointer = path.trim_start_matches("spec").replace('.', "/");
            let mut below = layers.iter().rev().filter(|_| own.pointer(&pointer).is_none());
            let layer = below.find(|layer| layer.spec().pointer(&pointer).is_some());
            layer.map_or(Origin::Service, |layer| layer.origin())
        };
        let mut fields: Vec<RefusedField> = self
            .engine
            .refused(spec)
            .map(|refused| RefusedField {
                path: refused.field,
                origin: origin(refused.field),
                why: refused.why(self.engine, &self.layer.name()),
            })
            .collect();
        // Planning writes the flags, probes and metrics of the runtime's engine, in all pods of model servers.
        for (path, pod) in spec.server_pods() {
            let main = pod.containers.iter().find(|container| container.name == "main");
            let Some(other) = main.and_then(Engine::of_command) else { continue };
            if other.name != self.engine.name {
                let other = other.name;
                let why = format!(
                    "the container main starts {other}, and the engine of runtime {} is {}: remove its command, or name a runtime of \
                     {other}",
                    self.layer.name(),
                    self.engine.name
                );
                fields.push(RefusedField { path, origin: origin(path), why });
            }
        }
        let needs_our_sidecar = self.engine.lora.as_ref().is_some_and(|flags| flags.request_field.is_some());
        if needs_our_sidecar && !spec.adapters().is_empty() && *images == Images::Reference {
            let why = format!(
                "not possible with {} and the images of the reference, because only Longboat's routing sidecar tells the engine \
                 the adapter of a request: remove `\"image\": \"reference\"` from key longboat of the platform's ConfigMap, or \
                 remove spec.runtime to serve adapters with vLLM",
                self.engine.name
            );
            fields.push(RefusedField { path: "spec.model.lora", origin: origin("spec.model.lora"), why });
        }
        if fields.is_empty() {
            return Ok(());
        }
        Err(ComposeError::RefusedFields { runtime: self.layer.origin().to_string(), fields })
    }
}
