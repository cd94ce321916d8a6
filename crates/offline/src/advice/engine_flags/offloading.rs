//! KV cache offloading that the vLLM in the image does not have.

use k8s_openapi::api::core::v1::Container;
use longboat_api::v1alpha2::LLMInferenceServiceSpec;

use super::release;
use crate::{finding::Advice, pods::half_of};

/// The release from which on the start scripts of presets give vLLM the argument for offloading.
const FIRST: (u32, u32) = (0, 22);

pub(super) fn check(
    path: &str,
    main: &Container,
    is_preset: bool,
    spec: &LLMInferenceServiceSpec,
) -> Option<Advice> {
    let (half, workload) = half_of(spec, path)?;
    workload.kv_cache_offloading.as_ref()?;
    let release = release::before(main, FIRST)?;
    let (major, minor) = FIRST;
    let effect =
        if is_preset { "nothing is offloaded" } else { "vLLM does not know the connector's settings" };
    Some(Advice::warning(
        format!("{half}.kvCacheOffloading"),
        "NotOffloaded",
        format!("needs vLLM {major}.{minor} or later, and the image of {path} has {release}: {effect}"),
        format!("use an image with vLLM {major}.{minor} or later"),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tests::about;

    #[test]
    fn offloading_with_an_image_that_is_too_old_is_warned_about() {
        let with = |image: &str| {
            about(&format!(
                "  model: {{uri: 'hf://a/b', name: m}}\n  kvCacheOffloading: {{cpu: 4Gi}}\n  template:\n    containers:\n    - name: main\n      \
             image: {image}\n      resources: {{limits: {{nvidia.com/gpu: 1}}}}\n"
            ))
        };
        assert_eq!(
            with("vllm/vllm-openai:v0.21.1"),
            [
                "warning spec.kvCacheOffloading: needs vLLM 0.22 or later, and the image of spec.template.containers[name=main] has 0.21.1: \
             nothing is offloaded (use an image with vLLM 0.22 or later)"
            ]
        );
        for image in
            ["vllm/vllm-openai:v0.22.0", "vllm/vllm-openai:latest", "ghcr.io/llm-d/llm-d-cuda:v0.5.0"]
        {
            assert_eq!(with(image), [""; 0], "{image}");
        }
    }
}
