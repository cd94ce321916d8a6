//! Warnings about layers that merge, but have no effect or an unexpected one.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::core::v1::PodSpec;
use longboat_api::v1alpha2::{ConfigSource as Source, LLMInferenceServiceSpec};
use serde_json::Value;

use crate::{
    compose::Composer,
    effective::Effective,
    field_path,
    inputs::Inputs,
    layer::Layer,
    origin::Origin,
    provenance::{self, LayerValue},
    warning::Warning,
};

/// Reason: a base config changes nothing.
const CONFIG_WITHOUT_EFFECT: &str = "ConfigWithoutEffect";
/// Reason: a layer removes a container of a preset.
pub(crate) const PRESET_CONTAINER_REMOVED: &str = "PresetContainerRemoved";
/// Reason: a layer replaces a list of a lower one as a whole.
const FIELD_OVERRIDDEN: &str = "FieldOverridden";

/// The JSON pointers of pods in a spec.
pub(crate) const PODS: [&str; 6] = [
    "/template",
    "/worker",
    "/prefill/template",
    "/prefill/worker",
    "/router/scheduler/template",
    "/router/scheduler/tokenizer/template",
];

impl Composer {
    /// Returns warnings about the layers of a service that composed to `effective`: base configs without any effect,
    /// containers of presets that a layer removed, and lists that a layer replaced as a whole.
    ///
    /// This composes the service again without each base config, so the caller should call it only when the layers change.
    pub fn layer_warnings(&self, inputs: &Inputs<'_>, effective: &Effective) -> Vec<Warning> {
        let mut warnings = Vec::new();
        self.without_effect(inputs, effective, &mut warnings);
        removed_containers(effective, &mut warnings);
        overridden_lists(effective, &mut warnings);
        warnings
    }

    fn without_effect(&self, inputs: &Inputs<'_>, effective: &Effective, warnings: &mut Vec<Warning>) {
        let places = inputs.service.spec.base_refs.iter().enumerate();
        for (at, reference) in places {
            let mut service = inputs.service.clone();
            service.spec.base_refs.remove(at);
            let Ok(without) = self.compose(&Inputs { service: &service, ..*inputs }) else { continue };
            let mut spec = without.spec;
            // The lists of references differ, and nothing reads them after composition.
            spec.base_refs.clone_from(&effective.spec.base_refs);
            if spec == effective.spec {
                let config = base(effective, &reference.name);
                warnings.push(Warning {
                    reason: CONFIG_WITHOUT_EFFECT,
                    message: format!(
                        "{config} in spec.baseRefs[{at}] has no effect: higher layers override every field \
                         that it sets, or set the same value"
                    ),
                });
            }
        }
    }
}

/// The namespace and name of a base config.
fn base(effective: &Effective, name: &str) -> String {
    let applied = effective
        .applied
        .iter()
        .find(|config| config.name == name && matches!(config.source, Source::UserRef));
    let namespace = applied.map_or("", |config| config.namespace.as_str());
    format!("LLMInferenceServiceConfig {namespace}/{name}")
}

/// The pods of a spec, in the order of [`PODS`].
fn pods(spec: &LLMInferenceServiceSpec) -> [Option<&PodSpec>; 6] {
    let prefill = spec.prefill.as_ref();
    let scheduler = spec.scheduler();
    [
        spec.workload.template.as_deref(),
        spec.workload.worker.as_deref(),
        prefill.and_then(|half| half.template.as_deref()),
        prefill.and_then(|half| half.worker.as_deref()),
        scheduler.and_then(|scheduler| scheduler.template.as_deref()),
        scheduler.and_then(|scheduler| scheduler.tokenizer.as_ref()?.template.as_deref()),
    ]
}

fn removed_containers(effective: &Effective, warnings: &mut Vec<Warning>) {
    let composed = pods(&effective.spec);
    let presets = effective.applied.iter().zip(&effective.layers);
    for (_, layer) in presets.filter(|(config, _)| matches!(config.source, Source::Preset)) {
        for (pod, composed) in PODS.into_iter().zip(composed) {
            for list in ["initContainers", "containers"] {
                let containers = composed.map(|pod| match list {
                    "containers" => pod.containers.as_slice(),
                    _ => pod.init_containers.as_deref().unwrap_or_default(),
                });
                let kept: BTreeSet<&str> =
                    containers.into_iter().flatten().map(|container| container.name.as_str()).collect();
                for name in names(layer.spec(), pod, list).difference(&kept) {
                    let field = format!("spec{}.{list}", pod.replace('/', "."));
                    let remover = remover(effective, layer, pod);
                    warnings.push(Warning {
                        reason: PRESET_CONTAINER_REMOVED,
                        message: format!(
                            "{remover} removes container {name} of preset {} from {field}",
                            layer.name()
                        ),
                    });
                }
            }
        }
    }
}

fn names<'a>(spec: &'a Value, pod: &str, list: &str) -> BTreeSet<&'a str> {
    let containers = spec.pointer(pod).and_then(|pod| pod.get(list)).and_then(Value::as_array);
    containers.into_iter().flatten().filter_map(|container| container.get("name")?.as_str()).collect()
}

/// The layer above `layer` that has a field of the pod.
fn remover(effective: &Effective, layer: &Arc<Layer>, pod: &str) -> String {
    if effective.own().pointer(pod).is_some() {
        return Origin::Service.to_string();
    }
    let above = effective.layers.iter().rev().take_while(|other| !Arc::ptr_eq(other, layer));
    let found = above.into_iter().find(|other| other.spec().pointer(pod).is_some());
    found.map_or_else(|| "a higher layer".to_owned(), |other| other.origin().to_string())
}

/// Warns about lists that a layer replaces as a whole. Users expect that such a list keeps the elements of lower layers, like
/// a list that merges by key.
fn overridden_lists(effective: &Effective, warnings: &mut Vec<Warning>) {
    let specs = effective.layers.iter().map(|layer| (layer.origin(), layer.spec()));
    let specs: Vec<(Origin, &Value)> = specs.chain([(Origin::Service, effective.own())]).collect();
    // Computing provenance is expensive, so it is done only if such a list may be replaced. Presets do not replace each
    // other's lists.
    let presets =
        effective.applied.iter().take_while(|config| matches!(config.source, Source::Preset)).count();
    let competes = |at: usize| has_list_of_a_lower_one(specs[at].1, &specs[..at]);
    if !(presets..specs.len()).any(competes) {
        return;
    }
    let provenance = effective.provenance();
    // A path with a position leads through a list that does not merge.
    let mut lists: BTreeSet<String> = BTreeSet::new();
    for (path, lost) in provenance.gone() {
        lists.extend(atomic_list(path).map(ToOwned::to_owned).filter(|_| !lost.is_empty()));
    }
    for (path, leaf) in provenance
        .iter()
        .filter(|(_, leaf)| leaf.replaced.iter().any(|old| differs(old, leaf.layer_value.as_ref())))
    {
        if leaf.rule.is_none() {
            lists.extend(atomic_list(path).map(ToOwned::to_owned));
        }
    }
    for list in lists {
        let setters: Vec<(&Origin, &Vec<Value>)> =
            specs.iter().filter_map(|(origin, spec)| Some((origin, at(spec, &list)?.as_array()?))).collect();
        let Some((winner, kept)) = setters.last() else { continue };
        for (loser, items) in &setters[..setters.len() - 1] {
            if items.iter().any(|item| !kept.contains(item)) {
                warnings.push(Warning {
                    reason: FIELD_OVERRIDDEN,
                    message: format!(
                        "{winner} replaces the whole list spec.{list} of {loser}: this list is not merged \
                         element by element"
                    ),
                });
            }
        }
    }
}

/// Whether a spec sets a list that does not merge, and a lower spec sets the list too.
fn has_list_of_a_lower_one(spec: &Value, lower: &[(Origin, &Value)]) -> bool {
    let mut found = false;
    provenance::for_each(spec, &mut |path, _| {
        found = found
            || atomic_list(path).is_some_and(|list| {
                lower.iter().any(|(_, spec)| at(spec, list).is_some_and(Value::is_array))
            });
    });
    found
}

fn differs(old: &LayerValue, layer_value: Option<&Value>) -> bool {
    layer_value != Some(&old.value)
}

/// The outermost list on a path that is addressed by position.
fn atomic_list(path: &str) -> Option<&str> {
    path.match_indices('[').map(|(start, _)| start).find_map(|start| {
        let digits = path[start + 1..].split(']').next()?;
        (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then(|| &path[..start])
    })
}

/// The value at a path of provenance.
fn at<'a>(spec: &'a Value, path: &str) -> Option<&'a Value> {
    field_path::parse(path)?.iter().try_fold(spec, |found, step| Some(step.follow(found)?.0))
}
