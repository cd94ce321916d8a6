//! The workloads: rows below `spec` and below `spec.prefill`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use longboat_download::address::Scheme;
use longboat_quantity::Quantity;

use super::row::{Row, Site};
use crate::engine::Engine;
use crate::labels;
use crate::names::MAIN_CONTAINER;
use crate::v1alpha2::{KvCacheOffloading, ParallelismSpec};

pub(super) const ROWS: &[Row] = &[
    Row::with_effect("replicas", "replicas of the Deployment or LeaderWorkerSet"),
    Row::with_effect("parallelism.tensor", "--tensor-parallel-size, by the presets").with_warning(|site| {
        parallelism(site)?.is_tensor_parallel().then_some(())?;
        if site.starts_by_itself() {
            return site.note("parallelism.tensor", OWN_COMMAND);
        }
        too_few_devices(site)
    }),
    Row::with_effect("parallelism.pipeline", "selects the pipeline-parallel presets; pods of a group")
        .with_warning(|site| {
            let parallelism = parallelism(site)?;
            parallelism.is_pipeline_parallel().then_some(())?;
            if site.is_one_pod() {
                return site.note("parallelism.pipeline", &one_pod(site));
            }
            let is_group = site.whole && site.workload.worker.is_some();
            // The engine of a runtime has other presets, or refuses the field by itself.
            let is_alone = is_group && !parallelism.is_data_parallel() && site.spec.runtime().is_none();
            is_alone.then_some(())?;
            site.note("parallelism.pipeline", NO_PIPELINE_PRESET)
        }),
    Row::with_effect(
        "parallelism.data",
        "selects the data-parallel presets; data / dataLocal pods of a group",
    )
    .with_warning(|site| {
        let parallelism = parallelism(site)?;
        let data = parallelism.data?;
        if site.is_one_pod() {
            return site.note("parallelism.data", &one_pod(site));
        }
        (site.workload.worker.is_some() || !site.whole).then_some(())?;
        let local = parallelism.data_local.filter(|local| *local > 0 && data % local != 0)?;
        let ranks = (data / local).max(1).saturating_mul(local);
        let text =
            format!("is {data}, no multiple of dataLocal ({local}): {ranks} ranks are started instead");
        site.note("parallelism.data", &text)
    }),
    Row::with_effect("parallelism.dataLocal", "--data-parallel-size-local; data / dataLocal pods of a group")
        .with_warning(|site| {
            let parallelism = parallelism(site)?;
            parallelism.data_local?;
            if site.is_one_pod() {
                return site.note("parallelism.dataLocal", &one_pod(site));
            }
            // With both, the row of `tensor` tells.
            (!parallelism.is_tensor_parallel() && !site.starts_by_itself()).then_some(())?;
            too_few_devices(site)
        }),
    Row::with_effect("parallelism.dataRPCPort", "--data-parallel-rpc-port").with_warning(|site| {
        let parallelism = parallelism(site)?;
        parallelism.data_rpc_port?;
        if site.is_one_pod() {
            return site.note("parallelism.dataRPCPort", &one_pod(site));
        }
        (site.whole && !parallelism.is_data_parallel()).then_some(())?;
        site.note(
            "parallelism.dataRPCPort",
            "has no effect without parallelism.data and parallelism.dataLocal",
        )
    }),
    Row::with_effect("parallelism.expert", "--enable-expert-parallel, by the presets of several pods")
        .with_warning(|site| {
            (parallelism(site)?.expert && site.is_one_pod()).then_some(())?;
            site.note("parallelism.expert", &one_pod(site))
        }),
    Row::with_effect("labels", "labels of the pods and of the workload's Service").with_warning(|site| {
        let taken =
            [labels::NAME, labels::PART_OF, labels::COMPONENT, labels::KSERVE_COMPONENT, labels::ROLE];
        let key = first(&site.workload.labels, &taken)?;
        if key == labels::NAME && site.workload.labels.get(key).map(String::as_str) == site.name {
            return None;
        }
        site.note(
            "labels",
            &format!("sets {key}, by which the pods of the service are found: use another key"),
        )
    }),
    Row::with_effect("annotations", "annotations of the pods and of the workload's Service"),
    Row::with_effect("template", "the pod, or the leader of a group, merged over the preset's").with_warning(
        |site| {
            initializer(site)
                .or_else(|| extra_main_container(site, "template", site.workload.template.as_deref()))
        },
    ),
    Row::with_effect("worker", "the workers of a group, merged over the preset's").with_warning(|site| {
        group_of_one(site).or_else(|| extra_main_container(site, "worker", site.workload.worker.as_deref()))
    }),
    Row::with_effect("kvCacheOffloading.cpu", "--kv-transfer-config of the model server").with_warning(
        |site| {
            let offloading = kv_cache(site)?;
            if Quantity::parse(&offloading.cpu.0.0).is_none_or(|cpu| cpu.nano() == 0) {
                return site.note("kvCacheOffloading.cpu", "is 0: no memory is given to offloading");
            }
            site.note("kvCacheOffloading.cpu", no_connector(site)?)
        },
    ),
    Row::with_effect("kvCacheOffloading.evictionPolicy", "--kv-transfer-config of the model server")
        .with_warning(|site| {
            // The API server fills in lru, so that nobody may have asked for it.
            kv_cache(site).filter(|offloading| !matches!(offloading.eviction_policy.as_str(), "" | "lru"))?;
            site.note("kvCacheOffloading.evictionPolicy", no_connector(site)?)
        }),
    Row::with_effect(
        "kvCacheOffloading.secondary[].fileSystem.emptyDir.size",
        "limit and request of an emptyDir",
    ),
    Row::with_effect("kvCacheOffloading.secondary[].fileSystem.pvc.spec", "an ephemeral claim for each pod"),
    Row::with_effect("kvCacheOffloading.secondary[].fileSystem.pvc.ref.name", "the claim is mounted"),
    Row::with_effect("kvCacheOffloading.secondary[].fileSystem.pvc.ref.path", "subPath of the mount"),
    Row::with_effect("rolloutStrategy.maxUnavailable", "rolling update of the Deployment or LeaderWorkerSet"),
    Row::with_effect("rolloutStrategy.maxSurge", "rolling update of the Deployment or LeaderWorkerSet"),
];

/// The warnings about topologies that cannot work. They also hold for a composed spec.
pub(super) const TOPOLOGY: [fn(&Site<'_>) -> Option<String>; 2] = [group_of_one, too_few_devices];

const NO_PIPELINE_PRESET: &str = "selects a preset for pipeline parallelism, and this build has none: set \
    parallelism.data and parallelism.dataLocal, or create the config of that name with the pods of the group";

const OWN_COMMAND: &str =
    "has no effect: container main has a command of its own, which replaces the start script of the preset";

fn parallelism<'a>(site: &Site<'a>) -> Option<&'a ParallelismSpec> {
    site.workload.parallelism.as_ref()
}

fn kv_cache<'a>(site: &Site<'a>) -> Option<&'a KvCacheOffloading> {
    site.workload.kv_cache_offloading.as_deref()
}

/// Workers that never run, because the leader is the whole group.
fn group_of_one(site: &Site<'_>) -> Option<String> {
    site.workload.worker.as_ref()?;
    (site.workload.size()? == 1).then_some(())?;
    let reason = if parallelism(site)?.is_data_parallel() {
        "data / dataLocal is 1: raise parallelism.data above dataLocal"
    } else {
        "parallelism.pipeline is 1: raise it"
    };
    site.note(
        "worker",
        &format!("has no effect, because a group has one pod, its leader; {reason}, or remove worker"),
    )
}

/// A pod with fewer devices than its ranks need. The model server does not start in it.
fn too_few_devices(site: &Site<'_>) -> Option<String> {
    let parallelism = parallelism(site)?;
    let above_one = |factor: Option<i32>| factor.filter(|factor| *factor > 1).unwrap_or(1);
    let tensor = above_one(parallelism.tensor);
    let local = above_one(parallelism.data_local.filter(|_| site.workload.worker.is_some()));
    // Presets of vLLM spread one pod by its tensors only.
    let is_spread = site.workload.worker.is_none()
        && site.spec.runtime().is_some()
        && ["SGLang", "TensorRT-LLM"].contains(&Engine::of_spec(site.spec).name);
    let alone = |factor: Option<i32>| above_one(factor.filter(|_| is_spread));
    let (pipeline, data) = (alone(parallelism.pipeline), alone(parallelism.data));
    if tensor.max(pipeline).max(data).max(local) == 1 {
        return None;
    }
    let needed = [local, pipeline, data].into_iter().fold(tensor, i32::saturating_mul);
    let fields = [("tensor", tensor), ("pipeline", pipeline), ("data", data)];
    let factors: Vec<String> = fields
        .iter()
        .filter(|(_, factor)| *factor > 1)
        .map(|(field, factor)| format!("{field} {factor}"))
        .collect();
    let pods = [("template", &site.workload.template), ("worker", &site.workload.worker)];
    pods.into_iter().find_map(|(field, pod)| {
        let containers = &pod.as_ref()?.containers;
        let (at, main) =
            containers.iter().enumerate().find(|(_, container)| container.name == MAIN_CONTAINER)?;
        let (resource, count) = devices(main).max_by_key(|(_, count)| *count)?;
        (count < i64::from(needed)).then_some(())?;
        let why = if local > 1 {
            format!("parallelism.tensor {tensor} for each of {local} local ranks needs {needed}")
        } else if needed > tensor {
            format!("parallelism ({}) needs {needed}", factors.join(", "))
        } else {
            format!("parallelism.tensor needs {needed}")
        };
        let path = format!("{field}.containers[{at}].resources.limits");
        site.note(
            &path,
            &format!("gives the model server {count} of {resource}, and {why}: it will not start"),
        )
    })
}

/// Returns the devices that a container may use, by the name of the resource. Kubernetes' own resources have no domain.
pub fn devices(container: &Container) -> impl Iterator<Item = (&str, i64)> {
    let limits = container.resources.iter().flat_map(|resources| resources.limits.iter().flatten());
    limits.filter_map(|(name, amount)| {
        let is_device = name.contains('/') && !name.starts_with("kubernetes.io/");
        // Kubernetes takes whole numbers only for these resources.
        Some((name.as_str(), amount.0.parse().ok()?)).filter(|_| is_device)
    })
}

/// A container that was probably meant to be the model server. Nothing but presets adds to the spec, and it does not touch
/// the container `main`, so the preset's runs as well.
fn extra_main_container(site: &Site<'_>, field: &str, pod: Option<&PodSpec>) -> Option<String> {
    /// Names in images of model servers that are not among the engines.
    const OTHERS: [&str; 2] = ["tritonserver", "text-generation-inference"];
    let containers = &pod.filter(|_| site.whole)?.containers;
    if containers.iter().any(|container| container.name == MAIN_CONTAINER) {
        return None;
    }
    containers.iter().enumerate().find_map(|(at, container)| {
        let image = container.image.as_deref().unwrap_or_default();
        let what = if devices(container).next().is_some() {
            "has the devices"
        } else if Engine::of_image(image).is_some() || OTHERS.iter().any(|server| image.contains(server)) {
            "has the image of a model server"
        } else if Engine::of_command(container).is_some() {
            "has the command of a model server"
        } else {
            return None;
        };
        let text = format!(
            "{what}, and runs beside the container {MAIN_CONTAINER} of the preset, which serves the model: did you mean `{MAIN_CONTAINER}`?"
        );
        site.note(&format!("{field}.containers[{at}].name"), &text)
    })
}

/// Why a field that spreads a model over several pods does nothing.
fn one_pod(site: &Site<'_>) -> String {
    format!("has no effect without {}.worker: a single pod is only spread by parallelism.tensor", site.base)
}

/// Why the settings of offloading do not reach the model server, if they do not.
fn no_connector(site: &Site<'_>) -> Option<&'static str> {
    if site.starts_by_itself() {
        return Some(OWN_COMMAND);
    }
    site.mentions(&["--kv-transfer-config", "--kv_transfer_config"])
        .then_some("has no effect: the model server's own arguments have --kv-transfer-config already")
}

fn first<'a>(map: &BTreeMap<String, String>, keys: &[&'a str]) -> Option<&'a str> {
    keys.iter().copied().find(|key| map.contains_key(*key))
}

/// Returns a warning about an init container with the initializer's name.
fn initializer(site: &Site<'_>) -> Option<String> {
    const PATH: &str = "template.initContainers[storage-initializer]";
    if site.storage_is_off() {
        return None;
    }
    let pod = site.workload.template.as_ref()?;
    let container =
        pod.init_containers.iter().flatten().find(|container| container.name == "storage-initializer")?;
    let fetched = |scheme: Scheme| matches!(scheme, Scheme::HuggingFace | Scheme::S3);
    if let scheme @ (Scheme::Claim | Scheme::Oci) = site.scheme()
        && !site.spec.adapters().iter().any(|adapter| fetched(adapter.uri.address().scheme()))
    {
        return site.note(
            PATH,
            &format!("has no effect: models from {scheme}:// are not fetched by an initializer"),
        );
    }
    let fixed = if container.command.is_some() { "command" } else { "args" };
    (container.command.is_some() || container.args.is_some()).then_some(())?;
    site.note(
        &format!("{PATH}.{fixed}"),
        "has no effect: what is fetched, and where to, is decided by spec.model",
    )
}
