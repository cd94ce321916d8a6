//! Images that compute on other devices than their containers get, and devices that another container gets.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use longboat_api::v1alpha2::LLMInferenceServiceSpec;

use crate::{
    finding::Advice,
    pods::{MAIN, containers_of, main_containers},
};

/// What an engine is built for.
#[derive(Debug, PartialEq, Eq)]
struct Platform {
    /// Its devices, as people say.
    devices: &'static str,
    /// The resource that a container requests most often.
    resource: &'static str,
    /// Words in the names and tags of images.
    words: &'static [&'static str],
    /// Beginnings of the names of its resources.
    resources: &'static [&'static str],
}

static PLATFORMS: [Platform; 7] = [
    Platform { devices: "the CPU", resource: CPU, words: &["cpu", "xeon"], resources: &[] },
    // Parts of GPUs have resources such as `nvidia.com/mig-1g.5gb`.
    Platform { devices: "NVIDIA's GPUs", resource: NVIDIA, words: &["cuda"], resources: &["nvidia.com/"] },
    Platform {
        devices: "AMD's GPUs",
        resource: "amd.com/gpu",
        words: &["rocm"],
        resources: &["amd.com/gpu"],
    },
    Platform {
        devices: "Intel's GPUs",
        // The names end with the driver: i915 or xe.
        resource: "gpu.intel.com/xe",
        words: &["xpu"],
        resources: &["gpu.intel.com/", "intel.com/gpu"],
    },
    Platform {
        devices: "Gaudi",
        resource: "habana.ai/gaudi",
        words: &["gaudi", "habana", "hpu"],
        resources: &["habana.ai/"],
    },
    Platform {
        devices: "Google's TPUs",
        resource: "google.com/tpu",
        words: &["tpu"],
        resources: &["google.com/tpu"],
    },
    Platform {
        devices: "Neuron devices",
        resource: "aws.amazon.com/neuron",
        words: &["neuron"],
        resources: &["aws.amazon.com/neuron"],
    },
];

const CPU: &str = "cpu";
const NVIDIA: &str = "nvidia.com/gpu";

/// Images of NVIDIA's platform whose names have no such word.
const NVIDIA_IMAGES: [&str; 3] = ["vllm/vllm-openai", "lmsysorg/sglang", "llm-d/llm-d-aws"];

pub(super) fn check(service: &LLMInferenceServiceSpec, spec: &LLMInferenceServiceSpec) -> Vec<Advice> {
    let own_images: BTreeSet<String> =
        main_containers(service).filter(|(_, main)| main.image.is_some()).map(|(path, _)| path).collect();
    let has_devices = main_containers(spec).any(|(_, main)| extended_resources(main).next().is_some());
    let mains = spec.server_pods().filter_map(|(pod_path, pod)| {
        let main = pod.containers.iter().find(|container| container.name == MAIN)?;
        let path = format!("{pod_path}.containers[name={MAIN}]");
        elsewhere(pod_path, pod, main)
            .or_else(|| advice(&path, pod, main, has_devices || own_images.contains(&path)))
    });
    mains.collect()
}

/// Devices of another container than that of the model server, which has none. A device belongs to one container.
fn elsewhere(path: &str, pod: &PodSpec, main: &Container) -> Option<Advice> {
    let is_for_cpu = main.image.as_deref().and_then(platform).is_some_and(|of| of.resource == CPU);
    if is_for_cpu || extended_resources(main).next().is_some() || may_see_devices(pod, main) {
        return None;
    }
    containers_of(path, pod).filter(|(_, other)| other.name != MAIN).find_map(|(place, other)| {
        let device = extended_resources(other).find(|name| platform_of_resource(name).is_some())?;
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
        let (advice, place): (fn(_, _, _, _) -> _, _) =
            if needs_device { (Advice::warning, "") } else { (Advice::note, " on a cluster") };
        return (built_for.resource != CPU && !may_see_devices(pod, main)).then(|| {
            advice(
                format!("{path}.resources.limits"),
                "NoDevice",
                format!(
                    "has no device, and {image} computes on {} only: it does not start{place}",
                    built_for.devices
                ),
                format!("request one, such as `{}: \"1\"`, or use an image for the CPU", built_for.resource),
            )
        });
    }
    let (name, given) = resources.iter().find_map(|name| Some((name, platform_of_resource(name)?)))?;
    let fits = resources.iter().any(|name| platform_of_resource(name) == Some(built_for));
    let effect = if built_for.resource == CPU { "they would stand idle" } else { "it does not start" };
    (!fits).then(|| {
        Advice::warning(
            format!("{path}.image"),
            "OtherDevice",
            format!(
                "is {image}, which computes on {}, and the container gets {} ({name}): {effect}",
                built_for.devices, given.devices
            ),
            format!("use an image for {}, or request other devices", given.devices),
        )
    })
}

fn platform_of_resource(name: &str) -> Option<&'static Platform> {
    PLATFORMS.iter().find(|platform| platform.resources.iter().any(|prefix| name.starts_with(prefix)))
}

/// Whether an image has an engine for NVIDIA's GPUs.
pub(super) fn is_for_nvidia(image: &str) -> bool {
    platform(image).is_some_and(|of| of.resource == NVIDIA)
}

/// Returns the platform that an image names. Returns `None` if it names none, or several.
fn platform(image: &str) -> Option<&'static Platform> {
    let name = image.split('@').next().unwrap_or_default().to_ascii_lowercase();
    // The registry says nothing about the image.
    let path =
        name.split_once('/').filter(|(host, _)| host.contains(['.', ':'])).map_or(&*name, |(_, path)| path);
    let words: Vec<&str> = path
        .split(|c: char| !c.is_ascii_alphanumeric())
        .map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit()))
        .collect();
    let repository = path.split(':').next().unwrap_or_default();
    let mut named = PLATFORMS.iter().filter(|of| words.iter().any(|word| of.words.contains(word)));
    match (named.next(), named.next()) {
        (None, _) => PLATFORMS.iter().find(|of| of.resource == NVIDIA && NVIDIA_IMAGES.contains(&repository)),
        (one, None) => one,
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

#[cfg(test)]
mod tests {
    use super::platform;
    use crate::advice::tests::{all_findings, finding_lines, service};

    #[test]
    fn images_name_their_platform() {
        for (image, built_for) in [
            ("ghcr.io/llm-d/llm-d-cuda:v0.9.0", Some("nvidia.com/gpu")),
            ("vllm/vllm-openai:latest", Some("nvidia.com/gpu")),
            ("docker.io/vllm/vllm-openai:v0.23.0", Some("nvidia.com/gpu")),
            ("vllm/vllm-openai-cpu:v0.23.0@sha256:89e1", Some("cpu")),
            ("vllm/vllm-openai-rocm:latest", Some("amd.com/gpu")),
            ("rocm/vllm:rocm7.0_vllm", Some("amd.com/gpu")),
            ("lmsysorg/sglang:v0.5.1-cu126", Some("nvidia.com/gpu")),
            ("lmsysorg/sglang:v0.5.1-rocm630", Some("amd.com/gpu")),
            ("registry.redhat.io/rhaiis/vllm-cuda-rhel9:3", Some("nvidia.com/gpu")),
            ("ghcr.io/llm-d/llm-d-hpu:v0.5", Some("habana.ai/gaudi")),
            ("ghcr.io/llm-d/llm-d-xpu:v0.5", Some("gpu.intel.com/xe")),
            ("vllm/vllm-tpu:nightly", Some("google.com/tpu")),
            ("cuda.example.com/team/engine:v1", None),
            ("ghcr.io/team/vllm:cpu-and-cuda", None),
            ("ghcr.io/llm-d/llm-d-inference-sim:v0.5", None),
        ] {
            assert_eq!(platform(image).map(|of| of.resource), built_for, "{image}");
        }
    }

    #[test]
    fn devices_of_another_container_than_the_model_server_are_warned_about() {
        let with = |main: &str, list: &str, other: &str| {
            let pod = format!(
                "  model: {{uri: 'hf://a/b'}}\n  template:\n    containers: [{{name: main{main}}}]\n    {list}: [{{name: {other}, image: \
                 busybox, resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]\n"
            );
            finding_lines(&service("a", &pod.replace("}]\n    containers: [", "}, ")))
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
    fn an_image_of_a_preset_without_a_device_is_noted() {
        let noted = |lines: &str| {
            let all = all_findings(&service("a", lines)).into_iter().filter(|one| one.reason == "NoDevice");
            all.map(|one| one.line()).collect::<Vec<_>>()
        };
        let [note] = &noted("  model: {uri: 'hf://a/b'}\n  template: {}\n")[..] else { panic!("one") };
        assert!(
            note.starts_with(
                "f.yaml:6:3: note: spec.template.containers[name=main].resources.limits: has no device, and "
            ),
            "{note}"
        );
        assert!(note.ends_with("computes on NVIDIA's GPUs only: it does not start on a cluster"), "{note}");
        assert_eq!(noted("  baseRefs: [{name: longboat-llama-cpp}]\n  model: {uri: 'hf://a/b'}\n"), [""; 0]);
    }

    #[test]
    fn a_pod_without_devices_beside_one_with_devices_is_warned_about() {
        let with = |others: &str| {
            let devices = "[{name: main, resources: {limits: {nvidia.com/gpu: 2}}}]";
            let pods =
                format!("  model: {{uri: 'hf://a/b'}}\n  template: {{containers: {devices}}}\n{others}");
            let found = finding_lines(&service("a", &pods));
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
            finding_lines(&service("a", &pod))
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
