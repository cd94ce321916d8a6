//! What KV cache offloading to main memory changes in the pods of engines: the argument of vLLM, and the size of `/dev/shm`,
//! which holds the cache.

use std::sync::Arc;

use k8s_openapi::{
    api::core::v1::{EnvVar, PodSpec},
    apimachinery::pkg::api::resource::Quantity as Text,
};
use longboat_api::{
    annotations::KV_CACHE_SHM_PERCENT,
    names::MAIN_CONTAINER,
    v1alpha2::{AppliedConfig, ConfigSource, KvCacheOffloading, LLMInferenceServiceSpec, WorkloadSpec},
};
use longboat_quantity::Quantity;
use serde_json::{Map, Value, json};

use crate::{error::ComposeError, layer::Layer};

/// The variable of a main container in whose place the generated argument is put. Its form is a contract with presets.
pub(crate) const SLOT: &str = "KSERVE_KV_TRANSFER_ARGS";
const SHARED_MEMORY: &str = "/dev/shm";
/// The most that a preset may add to `/dev/shm`, in percent of the offloaded cache.
const MAX_PERCENT: i64 = 10_000;

/// The pod of an engine.
struct Engine<'a> {
    /// How messages name it.
    name: &'static str,
    /// Its JSON pointer in a spec.
    pointer: &'static str,
    pod: &'a mut PodSpec,
    offloading: Option<&'a KvCacheOffloading>,
}

fn engines(spec: &mut LLMInferenceServiceSpec) -> impl Iterator<Item = Engine<'_>> {
    let names = [("template", "/template"), ("worker", "/worker")];
    let prefill = [("prefill template", "/prefill/template"), ("prefill worker", "/prefill/worker")];
    let halves = [(Some(&mut spec.workload), names), (spec.prefill.as_deref_mut(), prefill)];
    halves.into_iter().filter_map(|(half, names)| Some((half?, names))).flat_map(|(half, names)| {
        let WorkloadSpec { template, worker, kv_cache_offloading, .. } = half;
        let offloading = kv_cache_offloading.as_deref();
        names.into_iter().zip([template, worker]).filter_map(move |((name, pointer), pod)| {
            Some(Engine { name, pointer, pod: pod.as_deref_mut()?, offloading })
        })
    })
}

/// Adds the offloaded cache to the size of `/dev/shm`, where a preset of the platform declares that size. A size that the user
/// declares stays as it is.
pub(crate) fn size_shared_memory(
    spec: &mut LLMInferenceServiceSpec,
    own: &Value,
    applied: &[AppliedConfig],
    layers: &[Arc<Layer>],
) {
    for Engine { pointer, pod, offloading, .. } in engines(spec) {
        let Some(cpu) = offloading.and_then(|offloading| Quantity::parse(&offloading.cpu.0.0)) else {
            continue;
        };
        let Some(name) = shared_memory(pod).map(|(name, _)| name.to_owned()) else { continue };
        let volume = pod.volumes.iter_mut().flatten().find(|volume| volume.name == name);
        let memory = volume.and_then(|volume| volume.empty_dir.as_mut());
        let Some(size) = memory.and_then(|memory| memory.size_limit.as_mut()) else { continue };
        let declares = |spec: &Value| declares_size(spec, pointer, &name);
        if declares(own) {
            continue;
        }
        // The highest layer that declares the size decides. If it is no preset, the size is the user's.
        let mut below = applied.iter().zip(layers).rev();
        let Some((config, layer)) = below.find(|(_, layer)| declares(layer.spec())) else { continue };
        if !matches!(config.source, ConfigSource::Preset) {
            continue;
        }
        let percent = layer.internal_annotation(KV_CACHE_SHM_PERCENT).and_then(|text| text.parse().ok());
        let Some(percent) = percent.filter(|percent| (1..=MAX_PERCENT).contains(percent)) else { continue };
        let growth = cpu.percent(percent).unwrap_or(cpu);
        if let Some(sum) = Quantity::parse(&size.0).and_then(|size| size + growth) {
            *size = Text(sum.to_string());
        }
    }
}

/// The volume that is the `/dev/shm` of a main container, and its size, if it is memory of a limited size.
fn shared_memory(pod: &PodSpec) -> Option<(&str, &Text)> {
    let mains = pod.containers.iter().filter(|container| container.name == MAIN_CONTAINER);
    let mut mounts = mains.flat_map(|container| container.volume_mounts.iter().flatten());
    let mount = mounts.find(|mount| mount.mount_path == SHARED_MEMORY)?;
    let volume = pod.volumes.iter().flatten().find(|volume| volume.name == mount.name)?;
    let memory = volume.empty_dir.as_ref().filter(|memory| memory.medium.as_deref() == Some("Memory"))?;
    Some((&volume.name, memory.size_limit.as_ref()?))
}

/// A `/dev/shm` with less space than the offloaded cache that it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmallSharedMemory {
    /// The path of its size in the composed spec.
    pub path: String,
    /// Its size.
    pub size: String,
    /// The size of the cache.
    pub cache: String,
}

/// Finds the pods of engines whose offloaded cache does not fit into `/dev/shm`. The sizes of presets grow with the cache, so
/// somebody has fixed these.
pub fn small_shared_memory(spec: &LLMInferenceServiceSpec) -> Vec<SmallSharedMemory> {
    let mut found = Vec::new();
    for (base, half) in spec.workloads() {
        let Some(offloading) = &half.kv_cache_offloading else { continue };
        let cache = offloading.cpu.0.0.as_str();
        let fits = |size: &Text| match (Quantity::parse(&size.0), Quantity::parse(cache)) {
            (Some(size), Some(cache)) => size.nano() >= cache.nano(),
            _ => true,
        };
        for (field, pod) in [("template", &half.template), ("worker", &half.worker)] {
            let memory = pod.as_deref().and_then(shared_memory);
            let Some((name, size)) = memory.filter(|(_, size)| !fits(size)) else { continue };
            found.push(SmallSharedMemory {
                path: format!("{base}.{field}.volumes[name={name}].emptyDir.sizeLimit"),
                size: size.0.clone(),
                cache: cache.to_owned(),
            });
        }
    }
    found
}

/// Whether a spec declares the size of an `emptyDir` volume in a pod.
fn declares_size(spec: &Value, pod: &str, volume: &str) -> bool {
    let volumes = spec.pointer(pod).and_then(|pod| pod.get("volumes")?.as_array());
    volumes.into_iter().flatten().any(|found| {
        found.get("name").is_some_and(|name| name == volume) && found.pointer("/emptyDir/sizeLimit").is_some()
    })
}

/// Puts the argument for offloading into the slots of main containers, and removes slots that stay empty. Containers without a
/// slot stay as they are.
///
/// # Errors
/// If a layer sets a value in a slot.
pub(crate) fn fill_slots(spec: &mut LLMInferenceServiceSpec) -> Result<(), ComposeError> {
    for Engine { name: workload, pod, offloading, .. } in engines(spec) {
        for container in pod.containers.iter_mut().filter(|container| container.name == MAIN_CONTAINER) {
            let Some(env) = &mut container.env else { continue };
            let is_slot = |variable: &EnvVar| variable.name == SLOT;
            let Some(first) = env.iter().position(is_slot) else { continue };
            let is_set = |variable: &EnvVar| {
                variable.value_from.is_some()
                    || variable.value.as_ref().is_some_and(|value| !value.is_empty())
            };
            if env.iter().any(|variable| is_slot(variable) && is_set(variable)) {
                return Err(ComposeError::KvTransferSlot { workload });
            }
            env.retain(|variable| !is_slot(variable));
            if let Some(offloading) = offloading {
                let value = Some(argument(offloading));
                env.insert(first, EnvVar { name: SLOT.to_owned(), value, value_from: None });
            }
            if env.is_empty() {
                container.env = None;
            }
        }
    }
    Ok(())
}

/// The argument of vLLM for offloading, as a shell reads it.
fn argument(offloading: &KvCacheOffloading) -> String {
    // It can always be serialized, because it has only string keys.
    let offloading = serde_json::to_value(offloading).unwrap_or_default();
    let text = connector(&offloading, "CPUOffloadingSpec").to_string();
    format!("--kv-transfer-config '{}'", text.replace('\'', r"'\''"))
}

/// The configuration of vLLM's connector. `without_tiers` is the class of vLLM for main memory alone.
pub(crate) fn connector(offloading: &Value, without_tiers: &str) -> Value {
    let mut extra = Map::new();
    let cpu = offloading.get("cpu").and_then(Value::as_str).unwrap_or("0");
    extra.insert("cpu_bytes_to_use".to_owned(), json!(bytes(cpu)));
    if let Some(policy) = offloading.get("evictionPolicy").and_then(Value::as_str).filter(|p| !p.is_empty()) {
        extra.insert("eviction_policy".to_owned(), json!(policy));
    }
    let tiers: Vec<Value> = offloading
        .get("secondary")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate()
        .filter(|(_, tier)| tier.get("fileSystem").is_some())
        .map(|(i, _)| json!({ "root_dir": format!("/mnt/kv-cache-{i}"), "type": "fs" }))
        .collect();
    let class = if tiers.is_empty() { without_tiers } else { TIERS };
    if !tiers.is_empty() {
        extra.insert("secondary_tiers".to_owned(), Value::Array(tiers));
    }
    extra.insert("spec_name".to_owned(), json!(class));
    json!({
        "kv_connector": "OffloadingConnector",
        "kv_connector_extra_config": extra,
        "kv_role": "kv_both",
    })
}

/// The class of vLLM for main memory and further tiers.
pub(crate) const TIERS: &str = "TieringOffloadingSpec";

/// A quantity as a whole number, or 0 if the text is not a quantity.
fn bytes(text: &str) -> i64 {
    Quantity::parse(text.trim()).and_then(|amount| i64::try_from(amount.whole()).ok()).unwrap_or(0)
}
