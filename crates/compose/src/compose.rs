//! Merges the layers of a service into one spec.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use longboat_api::{
    child_name,
    engine::{Engine, VLLM},
    labels::{KSERVE_COMPONENT, KSERVE_COMPONENT_WORKLOAD, NAME, PART_OF, PART_OF_VALUE},
    names::{preset, suffix},
    v1alpha2::{AppliedConfig, ConfigSource as Source, LLMInferenceService, LLMInferenceServiceSpec},
};
use longboat_key::{Name, Namespace};
use longboat_patch::strategic;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    codec, dra,
    effective::Effective,
    error::ComposeError,
    inputs::Inputs,
    kv_cache,
    layer::{Layer, fill_containers},
    lora, render, rewrite,
    runtime::ServiceRuntime,
    schema, select,
};

/// Composes one service. To compose many, use a [`Composer`], which is faster.
///
/// # Errors
///
/// See [`ComposeError`].
pub fn compose(inputs: &Inputs<'_>) -> Result<Effective, ComposeError> {
    Composer::default().compose(inputs)
}

/// Composes services, and caches the merged presets and base configs, which services of one topology and team have in common.
#[derive(Debug, Default)]
pub struct Composer {
    stacks: Mutex<HashMap<Vec<usize>, Arc<Stack>, ahash::RandomState>>,
}

/// All layers below a service's own spec, merged with each other.
#[derive(Debug)]
struct Stack {
    #[expect(dead_code, reason = "kept alive, because the cache identifies layers by their addresses")]
    layers: Vec<Arc<Layer>>,
    merged: Value,
}

/// The most combinations of layers in the cache, of up to a hundred kilobytes each. When the cache is full, it is cleared.
const MAX_STACKS: usize = 128;

impl Composer {
    /// Composes one service.
    ///
    /// # Errors
    ///
    /// See [`ComposeError`].
    pub fn compose(&self, inputs: &Inputs<'_>) -> Result<Effective, ComposeError> {
        let service = inputs.service;
        let (namespace, name) = (Namespace::of(&service.metadata), Name::of(&service.metadata));
        let mut own = own_layer(service)?;

        let base_refs: Vec<&str> = service.spec.base_refs.iter().map(|r| r.name.as_str()).collect();
        let bases = base_refs
            .iter()
            .map(|name| find(inputs, namespace, Name(name)))
            .collect::<Result<Vec<_>, _>>()?;
        // The spec with the base refs merged onto it determines which features are enabled, the engine, and the model's name.
        let decision = if bases.is_empty() {
            Cow::Borrowed(&own)
        } else {
            let specs = std::iter::once(&own).chain(bases.iter().map(|layer| layer.spec()));
            Cow::Owned(merge_layers(specs)?.unwrap_or_default())
        };
        let runtime = ServiceRuntime::find(inputs, namespace, &own, &decision)?;
        let engine = runtime.as_ref().map_or(&VLLM, |runtime| runtime.engine);
        let pinned = inputs.preset_names.pin(service.status.as_ref().map(|status| &status.annotations));
        let (presets, has_picker_config) = preset_layers(inputs, namespace, &decision, engine, &pinned)?;
        // The platform's picker configuration has no scorer for adapters, because most services have none.
        let scores_adapters = has_picker_config && lora::has_adapters(&decision);
        // The name of a base config wins over the service's own, which may be the default that admission has set.
        let model_name = decision.pointer("/model/name").cloned();
        if let (Some(model_name), Some(model)) =
            (model_name, own.get_mut("model").and_then(Value::as_object_mut))
        {
            model.insert("name".to_owned(), model_name);
        }

        // A config outside the platform's namespace is the user's, even if it takes the place of a preset.
        let of_preset = |layer: &Arc<Layer>| {
            if layer.namespace() == inputs.system_namespace { Source::Preset } else { Source::UserRef }
        };
        let lowest = runtime.as_ref().map(|runtime| &runtime.layer);
        let applied: Vec<_> = lowest
            .map(|layer| (layer, Source::ServingRuntime))
            .into_iter()
            .chain(presets.iter().map(|layer| (layer, of_preset(layer))))
            .chain(bases.iter().map(|layer| (layer, Source::UserRef)))
            .map(|(layer, source)| AppliedConfig {
                name: layer.name().to_string(),
                namespace: layer.namespace().to_string(),
                source,
            })
            .collect();

        let layers: Vec<_> = lowest.cloned().into_iter().chain(presets).chain(bases).collect();
        let stack = self.stack(&layers)?;
        let lowest = (!stack.merged.is_null()).then_some(&stack.merged);
        let mut merged = merge_layers(lowest.into_iter().chain([&own]))?.unwrap_or_default();
        fill_scheduler(&mut merged, &name);
        let pool = pool_name(&merged, &name);
        let global = inputs.platform.template_globals(engine, inputs.system_namespace, namespace, &pool);
        let (rendered, data) = rendered(service, merged, global)?;
        let spec = LLMInferenceServiceSpec::deserialize(&rendered);
        let mut spec = Box::new(spec.map_err(|error| ComposeError::Rendered(error.to_string()))?);

        let mut warnings = Vec::new();
        if scores_adapters {
            rewrite::adapter_scorer(&mut spec);
        }
        kv_cache::size_shared_memory(&mut spec, &own, &applied, &layers);
        kv_cache::fill_slots(&mut spec)?;
        dra::inject(&mut spec, service);
        rewrite::route(&mut spec, &name);
        let scheduler_config_map = rewrite::scheduler_config(
            &mut spec,
            namespace,
            inputs.system_namespace,
            inputs.config_maps,
            &mut warnings,
        )?;
        rewrite::picker_port(&mut spec);
        if let Some(runtime) = &runtime {
            runtime.check(&spec, &own, &layers, &inputs.platform.images)?;
        }
        // Only for its errors. Who needs the adapters asks for them.
        lora::adapters(&spec)?;
        Ok(Effective {
            spec,
            applied,
            status_annotations: pinned,
            scheduler_config_map,
            warnings,
            layers,
            own: Arc::new(own),
            data: Arc::new(data),
            rendered: Arc::new(rendered),
        })
    }

    /// Returns the merged layers below a service.
    fn stack(&self, layers: &[Arc<Layer>]) -> Result<Arc<Stack>, ComposeError> {
        let key: Vec<usize> = layers.iter().map(|layer| Arc::as_ptr(layer) as usize).collect();
        if let Some(stack) = self.stacks.lock().get(&key) {
            return Ok(stack.clone());
        }
        // Without the lock, because merging takes long. If two threads merge the same layers, the results are equal.
        let merged = merge_layers(layers.iter().map(|layer| layer.spec()))?.unwrap_or_default();
        let stack = Arc::new(Stack { layers: layers.to_vec(), merged });
        let mut stacks = self.stacks.lock();
        if stacks.len() >= MAX_STACKS {
            stacks.clear();
        }
        stacks.insert(key, stack.clone());
        Ok(stack)
    }
}

/// The service's own spec as a layer: normalised, and with the defaults that admission would set.
fn own_layer(service: &LLMInferenceService) -> Result<Value, ComposeError> {
    let broken = |message: String| ComposeError::Layer { layer: "the service's spec".to_owned(), message };
    let spec = serde_json::to_value(&service.spec).map_err(|e| broken(e.to_string()))?;
    let mut spec = codec::normalise(schema::TYPES.spec, spec).map_err(broken)?;
    let name = service.metadata.name.as_deref().unwrap_or_default();
    if let Some(model) = spec.get_mut("model").and_then(Value::as_object_mut)
        && model.get("name").and_then(Value::as_str).is_none_or(str::is_empty)
        && !name.is_empty()
    {
        model.insert("name".to_owned(), Value::String(name.to_owned()));
    }
    fill_containers(&mut spec);
    Ok(spec)
}

/// Merges specs, lowest first. The first is taken as it is.
///
/// The specs above the first have no null containers, because [`fill_containers`] is applied to each.
pub(crate) fn merge_layers<'a>(
    mut specs: impl Iterator<Item = &'a Value>,
) -> Result<Option<Value>, ComposeError> {
    let Some(first) = specs.next() else { return Ok(None) };
    let merged = specs.try_fold(first.clone(), |base, spec| {
        strategic::merge(base, patch(spec), "serving.v1alpha2.LLMInferenceServiceSpec")
    });
    merged.map(Some).map_err(|error| ComposeError::Merge(error.to_string()))
}

/// The patch of a spec. In the reference, it is the difference to a spec without values, which has an empty model URI. So an
/// empty URI is never part of it.
fn patch(spec: &Value) -> Value {
    let mut patch = spec.clone();
    if let Value::Object(members) = &mut patch
        && let Some(Value::Object(model)) = members.get_mut("model")
        && model.get("uri").is_some_and(|uri| uri == "")
    {
        model.remove("uri");
        if model.is_empty() {
            members.remove("model");
        }
    }
    patch
}

fn find(
    inputs: &Inputs<'_>,
    namespace: Namespace<&str>,
    name: Name<&str>,
) -> Result<Arc<Layer>, ComposeError> {
    inputs
        .configs
        .get(namespace, name)
        .or_else(|| inputs.configs.get(inputs.system_namespace, name))
        .ok_or_else(|| ComposeError::ConfigNotFound {
            name: name.to_string(),
            namespace: namespace.to_string(),
            system_namespace: inputs.system_namespace.to_string(),
        })
}

/// Returns the presets that follow from the spec with its base refs merged onto it, and whether one of them configures the picker.
fn preset_layers(
    inputs: &Inputs<'_>,
    namespace: Namespace<&str>,
    decision: &Value,
    engine: &Engine,
    pinned: &BTreeMap<String, String>,
) -> Result<(Vec<Arc<Layer>>, bool), ComposeError> {
    let names = inputs.preset_names;
    let found = |suffix: &str| find(inputs, namespace, Name(&names.resolve(suffix, pinned)));
    let pins_predictor = names.pin_of(preset::SCHEDULER_LATENCY_PREDICTOR, pinned).is_some();
    let mut layers = Vec::new();
    let mut has_picker_config = false;
    for suffix in select::presets(decision, engine, pins_predictor) {
        let layer = found(suffix)?;
        let config = (suffix == preset::SCHEDULER).then(|| select::picker_config(decision, layer.spec()));
        layers.push(layer);
        if let Some(config) = config.flatten() {
            layers.push(found(config)?);
            has_picker_config = true;
        }
    }
    Ok((layers, has_picker_config))
}

/// The name of the pool that gets the service's requests.
fn pool_name(merged: &Value, service: &str) -> String {
    let named = merged.pointer("/router/scheduler/pool/ref/name").and_then(Value::as_str);
    named
        .filter(|name| !name.is_empty())
        .map_or_else(|| child_name(service, suffix::INFERENCE_POOL), ToOwned::to_owned)
}

/// Renders the merged spec. Returns the data of its templates too: the service with the merged spec, and the platform settings.
fn rendered(
    service: &LLMInferenceService,
    merged: Value,
    global: Value,
) -> Result<(Value, Value), ComposeError> {
    let broken = |error: serde_json::Error| ComposeError::Rendered(error.to_string());
    let metadata = serde_json::to_value(&service.metadata).map_err(broken)?;
    let status = serde_json::to_value(&service.status).map_err(broken)?;
    // The object is first the text of the template and then its data, because a copy would cost as much as merging. Only the
    // data has a status: text in a status is never a template.
    let mut object =
        Value::from_iter([("metadata", metadata), ("spec", merged), ("status", Value::Object(Map::new()))]);
    render_model_name(&mut object, &status, &global)?;
    let template = render::template(&object)?;
    object["status"] = status;
    let data = Value::from_iter([(schema::SERVICE_KEY, object), (schema::GLOBAL_KEY, global)]);
    Ok((render::execute(&template, &data)?, data))
}

/// Renders the model's name if it is a template. Templates of other fields read the name, so it comes first.
fn render_model_name(object: &mut Value, status: &Value, global: &Value) -> Result<(), ComposeError> {
    let name = object.pointer("/spec/model/name").cloned().unwrap_or_default();
    if !render::has_template(&name, &|_| true) {
        return Ok(());
    }
    let mut service = object.clone();
    service["status"].clone_from(status);
    let data = Value::from_iter([(schema::SERVICE_KEY, service), (schema::GLOBAL_KEY, global.clone())]);
    let rendered = render::whole(&json!({"spec": {"model": {"name": name}}}), &data)?;
    object["spec"]["model"]["name"] = rendered["model"]["name"].clone();
    Ok(())
}

/// Sets what a scheduler needs and no layer sets: which pods its pool has, and the account of its own pods.
fn fill_scheduler(spec: &mut Value, service: &str) {
    let Some(scheduler) = spec.pointer_mut("/router/scheduler") else { return };
    if let Some(pool) = scheduler.pointer_mut("/pool/spec").and_then(Value::as_object_mut)
        && let Some(selector) = pool.entry("selector").or_insert_with(|| json!({})).as_object_mut()
        && selector.get("matchLabels").and_then(Value::as_object).is_none_or(Map::is_empty)
    {
        let labels =
            json!({ PART_OF: PART_OF_VALUE, NAME: service, KSERVE_COMPONENT: KSERVE_COMPONENT_WORKLOAD });
        selector.insert("matchLabels".to_owned(), labels);
    }
    if let Some(pod) = scheduler.get_mut("template").and_then(Value::as_object_mut)
        && pod.get("serviceAccountName").and_then(Value::as_str).is_none_or(str::is_empty)
    {
        let account = child_name(service, suffix::EPP_SERVICE_ACCOUNT);
        pod.insert("serviceAccountName".to_owned(), Value::String(account));
    }
}
