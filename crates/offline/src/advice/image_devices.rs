//! Images that compute on other devices than their containers get, and devices that another container gets.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use longboat_api::v1alpha2::LLMInferenceServiceSpec;

use crate::{
    finding::Advice,
    pods::{MAIN, containers_of, main_containers, pods},
};

/// What an engine is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Platform {
    Cpu,
    Nvidia,
    Amd,
    Intel,
    Gaudi,
    Tpu,
    Neuron,
}

use Platform::{Amd, Cpu, Gaudi, Intel, Neuron, Nvidia, Tpu};

/// Words in the names and tags of images.
const WORDS: [(&str, Platform); 10] = [
    ("cpu", Cpu),
    ("xeon", Cpu),
    ("cuda", Nvidia),
    ("rocm", Amd),
    ("xpu", Intel),
    ("gaudi", Gaudi),
    ("habana", Gaudi),
    ("hpu", Gaudi),
    ("tpu", Tpu),
    ("neuron", Neuron),
];

/// Images of NVIDIA's platform whose names have no such word.
const NVIDIA_IMAGES: [&str; 3] = ["vllm/vllm-openai", "lmsysorg/sglang", "llm-d/llm-d-aws"];

/// Beginnings of the names of resources.
const RESOURCES: [(&str, Platform); 7] = [
    ("nvidia.com/", Nvidia),
    ("amd.com/gpu", Amd),
    ("gpu.intel.com/", Intel),
    ("intel.com/gpu", Intel),
    ("habana.ai/", Gaudi),
    ("google.com/tpu", Tpu),
    ("aws.amazon.com/neuron", Neuron),
];

pub(super) fn check(service: &LLMInferenceServiceSpec, spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    let own_images: BTreeSet<String> =
        main_containers(service).filter(|(_, main)| main.image.is_some()).map(|(path, _)| path).collect();
    let has_devices = main_containers(spec).any(|(_, main)| extended_resources(main).next().is_some());
    let mains = pods(spec).filter_map(|(pod_path, pod)| {
        let main = pod.containers.iter().find(|container| container.name == MAIN)?;
        let path = format!("{pod_path}.containers[name={MAIN}]");
        elsewhere(&pod_path, pod, main)
            .or_else(|| advice(&path, pod, main, has_devices || own_images.contains(&path)))
    });
    mains.collect()
}

/// Devices of another container than that of the model server, which has none. A device belongs to one container.
fn elsewhere(path: &str, pod: &PodSpec, main: &Container) -> Option<Advice> {
    let is_for_cpu = main.image.as_deref().and_then(platform) == Some(Cpu);
    if is_for_cpu || extended_resources(main).next().is_some() || may_see_devices(pod, main) {
        return None;
    }
    containers_of(path, pod).filter(|(_, other)| other.name != MAIN).find_map(|(place, other)| {
        let is_device = |name: &&str| RESOURCES.iter().any(|(prefix, _)| name.starts_with(prefix));
        let device = extended_resources(other).find(is_device)?;
        Some(Advice::warning(
            format!("{place}.resources"),
            "DeviceElsewhere",
            format!(
                "gives {device} to the container {}, and none to the container {MAIN}, in which the model server runs: it does not \
                 start",
                other.name
            ),
            format!("move it to `{path}.containers[name={MAIN}].resources.limits`"),
        ))
    })
}

fn advice(path: &str, pod: &PodSpec, main: &Container, needs_device: bool) -> Option<Advice> {
    let image = main.image.as_deref()?;
    let built_for = platform(image)?;
    let resources: Vec<&str> = extended_resources(main).collect();
    if resources.is_empty() {
        // Who leaves the image to a preset, and requests no device for any pod, may want to run the manifest on a laptop.
        return (needs_device && built_for != Cpu && !may_see_devices(pod, main)).then(|| {
            Advice::warning(
                format!("{path}.resources.limits"),
                "NoDevice",
                format!(
                    "has no device, and {image} computes on {} only: it does not start",
                    built_for.devices()
                ),
                format!(
                    "request one, such as `{}: \"1\"`, or use an image for the CPU",
                    built_for.resource()
                ),
            )
        });
    }
    let of = |name: &&str| {
        RESOURCES.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, platform)| *platform)
    };
    let (name, given) = resources.iter().find_map(|name| Some((name, of(name)?)))?;
    let fits = resources.iter().any(|name| of(name) == Some(built_for));
    let effect = if built_for == Cpu { "they would stand idle" } else { "it does not start" };
    (!fits).then(|| {
        Advice::warning(
            format!("{path}.image"),
            "OtherDevice",
            format!(
                "is {image}, which computes on {}, and the container gets {} ({name}): {effect}",
                built_for.devices(),
                given.devices()
            ),
            format!("use an image for {}, or request other devices", given.devices()),
        )
    })
}

/// Returns the platform that an image names. Returns `None` if it names none, or several.
fn platform(image: &str) -> Option<Platform> {
    let name = image.split('@').next().unwrap_or_default().to_ascii_lowercase();
    // The registry says nothing about the image.
    let path =
        name.split_once('/').filter(|(host, _)| host.contains(['.', ':'])).map_or(&*name, |(_, path)| path);
    let mut found: Vec<Platform> = path
        .split(|c: char| !c.is_ascii_alphanumeric())
        .map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit()))
        .filter_map(|word| WORDS.iter().find(|(known, _)| *known == word).map(|(_, platform)| *platform))
        .collect();
    found.dedup();
    let repository = path.split(':').next().unwrap_or_default();
    match found[..] {
        [] => NVIDIA_IMAGES.contains(&repository).then_some(Nvidia),
        [platform] => Some(platform),
        _ => None,
    }
}

/// Returns the names of the devices, also unknown ones, that a container requests.
fn extended_resources(container: &Container) -> impl Iterator<Item = &str> {
    let resources = container.resources.as_ref();
    let amounts = resources.into_iter().flat_map(|all| [all.limits.as_ref(), all.requests.as_ref()]);
    let names = amounts.flatten().flat_map(|amounts| amounts.keys()).map(String::as_str);
    names.filter(|name| name.contains('/') && !name.starts_with("kubernetes.io/"))
}

/// Whether a container may see devices that it did not request: by a claim, by another runtime, or by NVIDIA's runtime, which
/// reads a variable.
fn may_see_devices(pod: &PodSpec, main: &Container) -> bool {
    pod.resource_claims.iter().flatten().next().is_some()
        || pod.runtime_class_name.is_some()
        || main.env.iter().flatten().any(|variable| variable.name.ends_with("_VISIBLE_DEVICES"))
        || main.security_context.as_ref().is_some_and(|context| context.privileged == Some(true))
}

// === impl Platform ===

impl Platform {
    fn devices(self) -> &'static str {
        match self {
            Cpu => "the CPU",
            Nvidia => "NVIDIA's GPUs",
            Amd => "AMD's GPUs",
            Intel => "Intel's GPUs",
            Gaudi => "Gaudi",
            Tpu => "Google's TPUs",
            Neuron => "Neuron devices",
        }
    }

    /// The resource that a container requests most often.
    fn resource(self) -> &'static str {
        match self {
            Cpu => "cpu",
            Nvidia => "nvidia.com/gpu",
            Amd => "amd.com/gpu",
            Intel => "gpu.intel.com/xe",
            Gaudi => "habana.ai/gaudi",
            Tpu => "google.com/tpu",
            Neuron => "aws.amazon.com/neuron",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Amd, Cpu, Gaudi, Intel, Nvidia, Tpu, platform};
    use crate::advice::tests::{said, service};

    #[test]
    fn images_name_their_platform() {
        for (image, built_for) in [
            ("ghcr.io/llm-d/llm-d-cuda:v0.9.0", Some(Nvidia)),
            ("vllm/vllm-openai:latest", Some(Nvidia)),
            ("docker.io/vllm/vllm-openai:v0.23.0", Some(Nvidia)),
            ("vllm/vllm-openai-cpu:v0.23.0@sha256:89e1", Some(Cpu)),
            ("vllm/vllm-openai-rocm:latest", Some(Amd)),
            ("rocm/vllm:rocm7.0_vllm", Some(Amd)),
            ("lmsysorg/sglang:v0.5.1-cu126", Some(Nvidia)),
            ("lmsysorg/sglang:v0.5.1-rocm630", Some(Amd)),
            ("registry.redhat.io/rhaiis/vllm-cuda-rhel9:3", Some(Nvidia)),
            ("ghcr.io/llm-d/llm-d-hpu:v0.5", Some(Gaudi)),
            ("ghcr.io/llm-d/llm-d-xpu:v0.5", Some(Intel)),
            ("vllm/vllm-tpu:nightly", Some(Tpu)),
            ("cuda.example.com/team/engine:v1", None),
            ("ghcr.io/team/vllm:cpu-and-cuda", None),
            ("ghcr.io/llm-d/llm-d-inference-sim:v0.5", None),
        ] {
            assert_eq!(platform(image), built_for, "{image}");
        }
    }

    #[test]
    fn devices_of_another_container_than_the_model_server_are_warned_about() {
        let with = |main: &str, list: &str, other: &str| {
            let pod = format!(
                "  model: {{uri: 'hf://a/b'}}\n  template:\n    containers: [{{name: main{main}}}]\n    {list}: [{{name: {other}, image: \
                 busybox, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]\n"
            );
            said(&service("a", &pod.replace("}]\n    containers: [", "}, ")))
        };
        let hint = "(move it to `spec.template.containers[name=main].resources.limits`)";
        let why = "and none to the container main, in which the model server runs: it does not start";
        assert_eq!(
            with("", "containers", "vllm"),
            [format!(
                "7:61 warning spec.template.containers[1].resources: gives nvidia.com/gpu to the container vllm, {why} {hint}"
            )]
        );
        // The image of its own needs a device too, which is said once.
        assert_eq!(with(", image: 'vllm/vllm-openai:v1'", "containers", "vllm").len(), 1);
        assert_eq!(
            with("", "initContainers", "warm-up"),
            [format!(
                "8:54 warning spec.template.initContainers[0].resources: gives nvidia.com/gpu to the container warm-up, {why} {hint}"
            )]
        );
        for main in [", resources: {limits: {nvidia.com/gpu: 1}}", ", image: 'vllm/vllm-openai-cpu:v1'"] {
            assert_eq!(with(main, "containers", "draft"), [""; 0], "{main}");
        }
    }

    #[test]
    fn a_pod_without_devices_beside_one_with_devices_is_warned_about() {
        let with = |others: &str| {
            let devices = "[{name: main, resources: {limits: {nvidia.com/gpu: 2}}}]";
            let pods =
                format!("  model: {{uri: 'hf://a/b'}}\n  template: {{containers: {devices}}}\n{others}");
            let found = said(&service("a", &pods));
            found.into_iter().filter(|found| found.contains("has no device")).collect::<Vec<_>>()
        };
        let [worker] = &with("  parallelism: {data: 4, dataLocal: 2}\n  worker: {}\n")[..] else {
            panic!("one")
        };
        assert!(
            worker.contains("warning spec.worker.containers[name=main].resources.limits: has no device"),
            "{worker}"
        );
        assert_eq!(with("  prefill: {replicas: 1}\n").len(), 1);
        let shared = "env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]";
        assert_eq!(
            with(&format!("  prefill: {{template: {{containers: [{{name: main, {shared}}}]}}}}\n")),
            [""; 0]
        );
    }

    #[test]
    fn an_image_of_another_platform_than_the_devices_is_warned_about() {
        let with = |image: &str, resources: &str| {
            let pod = format!(
                "  model: {{uri: 'hf://a/b'}}\n  template:\n    containers:\n    - name: main\n      image: {image}\n      resources: \
                 {{limits: {{{resources}}}}}\n"
            );
            said(&service("a", &pod))
        };
        let image = "spec.template.containers[0].image: is";
        assert_eq!(
            with("rocm/vllm:v1", "nvidia.com/gpu: 1"),
            [format!(
                "9:7 warning {image} rocm/vllm:v1, which computes on AMD's GPUs, and the container gets NVIDIA's GPUs (nvidia.com/gpu): \
                 it does not start (use an image for NVIDIA's GPUs, or request other devices)"
            )]
        );
        assert_eq!(
            with("vllm/vllm-openai-cpu:v1", "nvidia.com/gpu: 1"),
            [format!(
                "9:7 warning {image} vllm/vllm-openai-cpu:v1, which computes on the CPU, and the container gets NVIDIA's GPUs \
                 (nvidia.com/gpu): they would stand idle (use an image for NVIDIA's GPUs, or request other devices)"
            )]
        );
        assert_eq!(
            with("vllm/vllm-openai:v1", "cpu: 4"),
            [
                "10:19 warning spec.template.containers[0].resources.limits: has no device, and vllm/vllm-openai:v1 computes on NVIDIA's \
                 GPUs only: it does not start (request one, such as `nvidia.com/gpu: \"1\"`, or use an image for the CPU)"
            ]
        );
        for (image, resources) in [
            ("rocm/vllm:v1", "amd.com/gpu: 1"),
            ("vllm/vllm-openai:v1", "nvidia.com/mig-1g.5gb: 1"),
            // Who shares GPUs has names of its own.
            ("vllm/vllm-openai:v1", "aliyun.com/gpu-mem: 8"),
            ("team/engine:v1", "amd.com/gpu: 1"),
        ] {
            assert_eq!(with(image, resources), [""; 0], "{image} {resources}");
        }
    }
}
