//! Selects the presets of a service.

use longboat_api::{
    engine::{Engine, HalfPresets},
    names::MAIN_CONTAINER,
    names::preset,
    picker_config::{self, config_flag, config_text},
    picker_plugins::{LATENCY_PRODUCER, TOKENIZER_USERS},
};
use serde_json::Value;

use crate::{
    lora,
    version::{self, Version},
};

/// The first version of the picker that gets its configuration from a preset.
const CONFIGURED_BY_PRESET: Version = Version::new(0, 11, 0);

/// The preset with the configuration of the picker, for a resolved spec and the spec of its scheduler preset. Returns `None` if
/// one of them configures the picker, or if the picker may not know what the preset contains.
pub(crate) fn picker_config(spec: &Value, scheduler_preset: &Value) -> Option<&'static str> {
    let specs = [spec, scheduler_preset];
    let mut schedulers = specs.iter().filter_map(|spec| spec.pointer("/router/scheduler"));
    if schedulers.any(|scheduler| {
        scheduler.get("config").is_some()
            || arguments(scheduler).is_some_and(|args| config_flag(&args).is_some())
    }) {
        return None;
    }
    let annotations = scheduler_preset.pointer("/router/scheduler/annotations");
    let declared = annotations.and_then(|annotations| annotations.get(version::ANNOTATION)?.as_str());
    let version = Version::parse(declared.unwrap_or_default()).ok()?;
    let preset =
        if spec.get("prefill").is_some() { preset::SCHEDULER_CONFIG_PD } else { preset::SCHEDULER_CONFIG };
    (version >= CONFIGURED_BY_PRESET).then_some(preset)
}

/// The suffixes of the presets for a resolved spec, lowest layer first, without that of [`picker_config`]. `pins_predictor` says
/// that the service pinned the latency predictor's preset, which new services do not use. `engine` serves the model.
pub(crate) fn presets(spec: &Value, engine: &Engine, pins_predictor: bool) -> Vec<&'static str> {
    let scheduler = spec.pointer("/router/scheduler");
    let plugins = scheduler.map(plugin_types).unwrap_or_default();
    let external_pool = || {
        let name = spec.pointer("/router/scheduler/pool/ref/name").and_then(Value::as_str);
        name.is_some_and(|name| !name.is_empty())
    };
    let has_plugin = |types: &[&str]| plugins.iter().any(|plugin| types.contains(&plugin.as_str()));

    let mut chosen = Vec::new();
    if let Some(scheduler) = scheduler {
        if !external_pool() {
            chosen.push(preset::SCHEDULER);
        }
        if scheduler.get("tokenizer").is_some() || has_plugin(&TOKENIZER_USERS) {
            chosen.push(preset::TOKENIZER);
        }
        if pins_predictor && has_plugin(&[LATENCY_PRODUCER]) {
            chosen.push(preset::SCHEDULER_LATENCY_PREDICTOR);
        }
    }
    let has_refs = || {
        let refs = spec.pointer("/router/route/http/refs").and_then(Value::as_array);
        refs.is_some_and(|refs| !refs.is_empty())
    };
    if spec.pointer("/router/route").is_some() && !has_refs() {
        chosen.push(preset::ROUTER_ROUTE);
    }
    if spec.get("tracing").is_some() {
        chosen.push(preset::TRACING);
    }
    let presets = &engine.presets;
    if let Some(prefill) = spec.get("prefill") {
        chosen.extend(workload(prefill, &presets.prefill));
        chosen.extend(workload(spec, &presets.decode));
    } else {
        chosen.extend(workload(spec, &presets.whole));
        if lora::has_adapters(spec) {
            chosen.extend(presets.adapters);
        }
    }
    chosen
}

/// Describes the condition under which the preset with this suffix is selected.
pub fn why(suffix: &str) -> &'static str {
    match suffix {
        preset::SCHEDULER => "spec.router.scheduler is set without a pool of its own",
        preset::SCHEDULER_CONFIG => "the picker has version 0.11 or later, and no configuration",
        preset::SCHEDULER_CONFIG_PD => {
            "spec.prefill is set, and the picker has version 0.11 or later, and no configuration"
        }
        preset::TOKENIZER => "the scheduler has a tokenizer or a plugin that needs one",
        preset::SCHEDULER_LATENCY_PREDICTOR => {
            "the scheduler's configuration has the plugin predicted-latency-producer, and the service pinned this preset"
        }
        preset::ROUTER_ROUTE => "spec.router.route is set without routes of its own",
        preset::TRACING => "spec.tracing is set",
        preset::TEMPLATE => "a model server on one node: neither spec.worker nor spec.prefill is set",
        preset::SGLANG_TEMPLATE => "the engine of spec.runtime is SGLang",
        preset::SGLANG_WORKER => "spec.worker is set, and the engine of spec.runtime is SGLang",
        preset::SGLANG_SIDECAR => {
            "spec.prefill or spec.model.lora.adapters is set, and the engine of spec.runtime is SGLang"
        }
        preset::SGLANG_PREFILL => "spec.prefill is set, and the engine of spec.runtime is SGLang",
        preset::SGLANG_PREFILL_WORKER => {
            "spec.prefill.worker is set, and the engine of spec.runtime is SGLang"
        }
        preset::TENSORRT_LLM_TEMPLATE => "the engine of spec.runtime is TensorRT-LLM",
        preset::LLAMA_CPP_TEMPLATE => "the engine of spec.runtime is llama.cpp",
        preset::WORKER_DATA_PARALLEL => "spec.worker is set, with data parallelism",
        preset::PREFILL_TEMPLATE => "spec.prefill is set without a worker",
        preset::PREFILL_WORKER_DATA_PARALLEL => "spec.prefill.worker is set, with data parallelism",
        preset::DECODE_TEMPLATE => "spec.prefill is set, without spec.worker: these pods decode",
        preset::DECODE_WORKER_DATA_PARALLEL => {
            "spec.prefill is set, with spec.worker and data parallelism: these pods decode"
        }
        _ => "spec.worker is set, with pipeline parallelism",
    }
}

/// The presets of one workload: for a single node, data parallelism or pipeline parallelism. Empty for workers with neither.
fn workload(spec: &Value, presets: &HalfPresets) -> &'static [&'static str] {
    if spec.get("worker").is_none() {
        return presets.single;
    }
    let positive = |field: &str| {
        let number = spec.get("parallelism").and_then(|all| all.get(field)).and_then(Value::as_i64);
        number.is_some_and(|number| number > 0)
    };
    if positive("data") || positive("dataLocal") {
        presets.data
    } else if positive("pipeline") {
        presets.pipeline
    } else {
        &[]
    }
}

/// The types of the plugins in the scheduler's config. Empty if the config cannot be parsed. ConfigMaps are not read.
fn plugin_types(scheduler: &Value) -> Vec<String> {
    match scheduler.pointer("/config/inline") {
        Some(inline) => plugins_of(inline),
        None => {
            arguments(scheduler).and_then(|args| config_text(&args).map(plugins_of_text)).unwrap_or_default()
        }
    }
}

/// Types of the plugins in a config given as text.
fn plugins_of_text(text: &str) -> Vec<String> {
    serde_saphyr::from_str::<Value>(text).map(|config| listed_plugins(&config)).unwrap_or_default()
}

/// Types of the plugins in a config, which may itself be a string that holds YAML.
pub(crate) fn plugins_of(config: &Value) -> Vec<String> {
    config.as_str().map_or_else(|| listed_plugins(config), plugins_of_text)
}

fn listed_plugins(config: &Value) -> Vec<String> {
    picker_config::plugin_types(config).map(ToOwned::to_owned).collect()
}

/// The arguments of the scheduler's main container.
fn arguments(scheduler: &Value) -> Option<Vec<&str>> {
    let containers = scheduler.pointer("/template/containers")?.as_array()?;
    let main = containers.iter().find(|c| c.get("name").is_some_and(|n| n == MAIN_CONTAINER))?;
    Some(main.get("args")?.as_array()?.iter().filter_map(Value::as_str).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shipped_preset_has_a_condition_of_its_own() {
        let mut reasons: Vec<&str> = preset::shipped().map(why).collect();
        let all = reasons.len();
        reasons.sort_unstable();
        reasons.dedup();
        assert_eq!(reasons.len(), all);
        assert!(
            !reasons.contains(&why("worker-pipeline-parallel")),
            "the condition of presets that are not shipped"
        );
    }
}
