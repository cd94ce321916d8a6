//! Merges the layers of a service into one spec.

use std::{cell::RefCell, collections::HashMap, sync::Arc};

use longboat_api::{
    child_name,
    labels::{KSERVE_COMPONENT, KSERVE_COMPONENT_WORKLOAD, NAME, PART_OF, PART_OF_VALUE},
    names::suffix,
    v1alpha2::{
        AppliedConfig, ConfigSource as Source, LLMInferenceService, LLMInferenceServiceSpec, WorkloadSpec,
    },
};
use longboat_key::{Name, Namespace};
use longboat_template::{Template, reflect::Value as Data};
use parking_lot::Mutex;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use crate::{
    codec,
    de::{self, Node, Render, Verbatim},
    dra,
    effective::Effective,
    error::ComposeError,
    layer::{ConfigMapSource, ConfigSource, Layer, Templates},
    leaf, lora,
    merge::{Tree, View, merge},
    pin::PresetNames,
    platform::Platform,
    render, rewrite, schema, select,
    skeleton::Skeletons,
};

/// The input of composition.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// The service.
    pub service: &'a LLMInferenceService,
    /// The configs that the service may use.
    pub configs: &'a dyn ConfigSource,
    /// The ConfigMaps to which its scheduler may refer.
    pub config_maps: &'a dyn ConfigMapSource,
    /// The platform settings.
    pub platform: &'a Platform,
    /// The controller's namespace, which has the presets.
    pub system_namespace: Namespace<&'a str>,
    /// How the names of presets are formed.
    pub preset_names: &'a PresetNames,
}

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
    /// Kept alive, because the cache identifies layers by their addresses.
    layers: Vec<Arc<Layer>>,
    merged: Value,
    templates: Templates,
    skeletons: Skeletons,
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
        // The spec with the base refs merged onto it determines which features are enabled, and the model's name.
        let chosen = if bases.is_empty() {
            select::presets(View::Json(&own))
        } else {
            let (presets, model_name) = resolve(&own, &bases)?;
            if let (Some(model_name), Some(model)) =
                (model_name, own.get_mut("model").and_then(Value::as_object_mut))
            {
                model.insert("name".to_owned(), Value::String(model_name));
            }
            presets
        };

        let pins = service.status.as_ref().map(|s| &s.annotations);
        let pinned = inputs.preset_names.pin(pins);
        let presets = chosen
            .iter()
            .map(|suffix| inputs.preset_names.resolve(suffix, Some(&pinned)))
            .map(|name| find(inputs, namespace, Name(&name)))
            .collect::<Result<Vec<_>, _>>()?;
        let applied = presets
            .iter()
            .map(|layer| (layer, Source::Preset))
            .chain(bases.iter().map(|layer| (layer, Source::UserRef)))
            .map(|(layer, source)| AppliedConfig {
                name: layer.name().to_string(),
                namespace: layer.namespace().to_string(),
                source,
            })
            .collect();

        let layers: Vec<_> = presets.into_iter().chain(bases).collect();
        let stack = self.stack(&layers)?;
        let pool = pool_name(&own, &stack.merged, &name);
        let global = inputs.platform.template_globals(inputs.system_namespace, namespace, &pool);
        let data = template_data(service, own, global);
        let mut spec = merged(&stack, &data, inputs, &name)?;

        let mut warnings = Vec::new();
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
        let adapters = lora::adapters(&spec)?;
        Ok(Effective {
            spec,
            applied,
            status_annotations: pinned,
            adapters,
            scheduler_config_map,
            warnings,
            layers,
            data: Arc::new(data),
        })
    }

    /// Returns the merged layers below a service.
    fn stack(&self, layers: &[Arc<Layer>]) -> Result<Arc<Stack>, ComposeError> {
        let key: Vec<usize> = layers.iter().map(|layer| Arc::as_ptr(layer) as usize).collect();
        if let Some(stack) = self.stacks.lock().get(&key) {
            return Ok(stack.clone());
        }
        let mut templates = Templates::default();
        for layer in layers {
            templates.extend(layer.templates().iter().map(|(k, v)| (k.clone(), v.clone())));
        }
        let merged = merge_layers(layers.iter().map(|layer| layer.spec()))?;
        let merged = merged.as_ref().map_or(Value::Null, Tree::to_value);
        let skeletons = Skeletons::of(&merged);
        let stack = Arc::new(Stack { layers: layers.to_vec(), merged, templates, skeletons });
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
    let mut spec = codec::normalise(schema::SPEC, spec).map_err(broken)?;
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

/// Replaces null containers by an empty list in five pod specs, because null would delete the containers of lower layers. The
/// tokenizer's pod is not among the five.
pub(crate) fn fill_containers(spec: &mut Value) {
    const PODS: [&str; 5] =
        ["/template", "/worker", "/prefill/template", "/prefill/worker", "/router/scheduler/template"];
    for pod in PODS {
        if let Some(containers) = spec.pointer_mut(pod).and_then(|pod| pod.get_mut("containers"))
            && containers.is_null()
        {
            *containers = Value::Array(Vec::new());
        }
    }
}

/// Merges specs, lowest first. The first is taken as it is.
///
/// The specs above the first have no null containers, because [`fill_containers`] is applied to each.
fn merge_layers<'a>(mut specs: impl Iterator<Item = &'a Value>) -> Result<Option<Tree<'a>>, ComposeError> {
    let Some(first) = specs.next() else { return Ok(None) };
    specs
        .try_fold(Tree::Leaf(first), |base, spec| merge(schema::SPEC, base, spec))
        .map(Some)
        .map_err(ComposeError::Merge)
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

/// Returns the presets and the model name that follow from the spec with its base refs merged onto it.
fn resolve(own: &Value, bases: &[Arc<Layer>]) -> Result<(Vec<&'static str>, Option<String>), ComposeError> {
    let specs = std::iter::once(own).chain(bases.iter().map(|layer| layer.spec()));
    let Some(resolved) = merge_layers(specs)? else { return Ok((Vec::new(), None)) };
    let model_name = resolved.at(&["model", "name"]).and_then(View::as_str).map(ToOwned::to_owned);
    Ok((select::presets(resolved.top()), model_name))
}

/// The name of the pool that gets the service's requests. The topmost layer that names one decides.
fn pool_name(own: &Value, below: &Value, service: &str) -> String {
    [own, below]
        .into_iter()
        .filter_map(|spec| spec.pointer("/router/scheduler/pool/ref/name")?.as_str())
        .find(|name| !name.is_empty())
        .map_or_else(|| child_name(service, suffix::INFERENCE_POOL), ToOwned::to_owned)
}

/// Merges the service's spec onto the layers below it, and renders the result.
fn merged(
    stack: &Stack,
    data: &Value,
    inputs: &Inputs<'_>,
    name: &str,
) -> Result<Box<LLMInferenceServiceSpec>, ComposeError> {
    let own = &data[schema::SERVICE_KEY]["spec"];
    let selector = json!({ PART_OF: PART_OF_VALUE, NAME: name, KSERVE_COMPONENT: KSERVE_COMPONENT_WORKLOAD });
    let merge = || {
        let lowest = (!stack.merged.is_null()).then_some(&stack.merged);
        let mut tree =
            merge_layers(lowest.into_iter().chain(std::iter::once(own)))?.unwrap_or(Tree::Leaf(&Value::Null));
        if tree.at(&["router", "scheduler", "pool", "spec"]).is_some()
            && tree
                .at(&["router", "scheduler", "pool", "spec", "selector", "matchLabels"])
                .is_none_or(View::is_empty)
        {
            tree.set(&["router", "scheduler", "pool", "spec", "selector", "matchLabels"], &selector);
        }
        Ok(tree)
    };
    let mut tree = merge()?;
    let account_is_free = tree
        .at(&["router", "scheduler", "template"])
        .is_some_and(|pod| pod.get("serviceAccountName").and_then(View::as_str).is_none_or(str::is_empty));
    let account = child_name(name, suffix::EPP_SERVICE_ACCOUNT);

    let alone = !stack.layers.iter().any(|layer| layer.has_templated_keys())
        && !leaf::has_templated_key(own)
        && !mentions_templates(inputs.service);
    if alone {
        let kept = stack.skeletons.split(&stack.merged, &mut tree);
        let renderer = Renderer {
            templates: &stack.templates,
            data: Data::typed(schema::TEMPLATE_DATA, Some(data)),
            rendered: RefCell::default(),
        };
        let filled = typed(tree.top(), &renderer).and_then(|mut spec| {
            kept.fill(&mut spec, &renderer)?;
            Ok(spec)
        });
        if let Ok(mut spec) = filled {
            let picker = spec.router.as_mut().and_then(|router| router.scheduler.as_mut()?.template.as_mut());
            if let Some(picker) = picker.filter(|_| account_is_free) {
                picker.service_account_name = Some(account);
            }
            return Ok(spec);
        }
        // The removed parts are needed after all.
        tree = merge()?;
    }
    let account = Value::String(account);
    if account_is_free {
        tree.set(&["router", "scheduler", "template", "serviceAccountName"], &account);
    }
    let data = complete(data, inputs.service)?;
    let config =
        json!({ "metadata": data[schema::SERVICE_KEY]["metadata"], "spec": tree.to_value(), "status": {} });
    let rendered = render::whole(&config, &data)?;
    typed(View::Json(&rendered), &Verbatim).map_err(|e| ComposeError::Rendered(e.to_string()))
}

/// The data of templates: the service and the platform settings. Fields that templates hardly ever use are left out, such as
/// the status and the managed fields. [`leaf`] knows which templates need [`complete`] data.
fn template_data(service: &LLMInferenceService, own: Value, global: Value) -> Value {
    let meta = &service.metadata;
    let mut metadata = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            metadata.insert(key.to_owned(), value);
        }
    };
    put("name", meta.name.clone().map(Value::String));
    put("namespace", meta.namespace.clone().map(Value::String));
    put("uid", meta.uid.clone().map(Value::String));
    put("labels", meta.labels.as_ref().map(strings));
    put("annotations", meta.annotations.as_ref().map(strings));
    let mut data = Map::new();
    data.insert("metadata".to_owned(), Value::Object(metadata));
    data.insert("spec".to_owned(), own);
    // The `json!` macro would copy both.
    let parts = [(schema::SERVICE_KEY, Value::Object(data)), (schema::GLOBAL_KEY, global)];
    Value::Object(parts.into_iter().map(|(key, part)| (key.to_owned(), part)).collect())
}

/// The data of templates with the complete service.
fn complete(data: &Value, service: &LLMInferenceService) -> Result<Value, ComposeError> {
    let broken = |e: serde_json::Error| ComposeError::Rendered(e.to_string());
    let mut data = data.clone();
    data[schema::SERVICE_KEY]["metadata"] = serde_json::to_value(&service.metadata).map_err(broken)?;
    data[schema::SERVICE_KEY]["status"] = serde_json::to_value(&service.status).map_err(broken)?;
    Ok(data)
}

fn strings(map: &std::collections::BTreeMap<String, String>) -> Value {
    Value::Object(map.iter().map(|(k, v)| (k.clone(), Value::String(v.clone()))).collect())
}

/// Whether the service's metadata contains template actions. The metadata is part of the text on which templates run.
fn mentions_templates(service: &LLMInferenceService) -> bool {
    let meta = &service.metadata;
    [&meta.labels, &meta.annotations]
        .into_iter()
        .flatten()
        .flatten()
        .any(|(key, value)| key.contains(leaf::ACTION) || value.contains(leaf::ACTION))
}

/// Renders single strings.
struct Renderer<'a> {
    templates: &'a Templates,
    data: Data<'a>,
    /// Cached results by the address of the template: presets use many templates repeatedly.
    rendered: RefCell<HashMap<*const Template, String, ahash::RandomState>>,
}

impl Render for Renderer<'_> {
    fn render(&self, text: &str) -> Option<String> {
        let Some(template) = self.templates.get(text) else {
            return leaf::render(&leaf::parse(text)?, &self.data);
        };
        if let Some(rendered) = self.rendered.borrow().get(&Arc::as_ptr(template)) {
            return Some(rendered.clone());
        }
        let rendered = leaf::render(template, &self.data)?;
        // A long script occurs only once, so caching it would only cost a copy.
        if rendered.len() <= MAX_REMEMBERED {
            self.rendered.borrow_mut().insert(Arc::as_ptr(template), rendered.clone());
        }
        Some(rendered)
    }
}

/// The longest result that is cached within a composition, in bytes.
const MAX_REMEMBERED: usize = 256;

/// Deserializes the typed spec. The parts are deserialized one by one, because serde would copy a flattened struct as a
/// whole.
pub(crate) fn typed(
    spec: View<'_, '_>,
    render: &dyn Render,
) -> Result<Box<LLMInferenceServiceSpec>, de::Error> {
    fn part<T: DeserializeOwned + Default>(
        spec: View<'_, '_>,
        key: &str,
        render: &dyn Render,
    ) -> Result<T, de::Error> {
        spec.get(key).map_or_else(|| Ok(T::default()), |place| T::deserialize(Node::new(place, render)))
    }
    // A spec has several kilobytes, so each part is written directly to its final place.
    let mut whole = Box::<LLMInferenceServiceSpec>::default();
    whole.model = part(spec, "model", render)?;
    whole.storage_initializer = part(spec, "storageInitializer", render)?;
    whole.workload = WorkloadSpec::deserialize(Node::new(spec, render))?;
    whole.prefill = part(spec, "prefill", render)?;
    whole.router = part(spec, "router", render)?;
    whole.tracing = part(spec, "tracing", render)?;
    whole.base_refs = part(spec, "baseRefs", render)?;
    Ok(whole)
}
